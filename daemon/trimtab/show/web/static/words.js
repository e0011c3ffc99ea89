// How the page speaks: ages, times, numbers with their units, the words for states.

/** `41 s`, `12 min`, `3 h`, `2 d`: as the verbs say it. */
export function age(seconds) {
  const s = Math.max(seconds, 0);
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

export function secondsBetween(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

/** The age of a moment as of the board. */
export function ageAt(moment, at) {
  return age(secondsBetween(moment, at));
}

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const TIME_S = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** `14:44`, with the day where it is another one than `near`'s. */
export function clock(moment, near) {
  const date = new Date(moment);
  const day = near && DAY.format(new Date(near)) !== DAY.format(date) ? `${DAY.format(date)} ` : "";
  return day + TIME.format(date);
}

export function clockSeconds(moment) {
  return TIME_S.format(new Date(moment));
}

/** A number with as many digits as are worth reading. */
export function number(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-GB").replaceAll(",", "\u202f");
  return value.toFixed(size >= 1 ? 1 : 2);
}

export function percent(ratio, digits = 0) {
  return `${(ratio * 100).toFixed(digits)} %`;
}

export function gpuHours(value) {
  return `${value >= 100 ? number(value) : value.toFixed(1)} GPU-h`;
}

/** `31.4 GPU-h/day`, `8.0 GPU-h in 4 h`. */
export function gainText(gain) {
  const hours = gain.horizon_hours;
  if (hours === 24) return `${gpuHours(gain.gpu_hours)}/day`;
  return `${gpuHours(gain.gpu_hours)} in ${number(hours)} h`;
}

const UNITS = {
  celsius: (v) => `${number(v)} °C`,
  watts: (v) => `${number(v)} W`,
  hertz: (v) => (v >= 1e9 ? `${(v / 1e9).toFixed(2)} GHz` : `${Math.round(v / 1e6)} MHz`),
  ratio: (v) => percent(v, v !== 0 && Math.abs(v) < 0.1 ? 1 : 0),
  seconds: (v) => age(v),
  bytes: (v) => `${number(v / 1e9)} GB`,
};

/** A value with its unit as people say it. */
export function quantity(value, unit) {
  if (value === null || value === undefined) return "not known";
  if (UNITS[unit]) return UNITS[unit](value);
  const word = { gpus: "GPUs" }[unit] || unit;
  return word ? `${number(value)} ${word}` : number(value);
}

/** The unit of a metric, read off its name (`power_watts`, `sm_active_ratio`, `ecc_errors_total/uncorrected`). */
export function unitOf(metric) {
  const last = metric.split("/")[0].replace(/_total$/, "").split("_").pop();
  return UNITS[last] ? last : "";
}

const METRICS = {
  sm_active_ratio: "SM activity",
  graphics_engine_active_ratio: "engine activity",
  utilization_ratio: "utilisation",
  temperature_celsius: "temperature",
  power_watts: "power",
  sm_clock_hertz: "SM clock",
  memory_used_bytes: "memory used",
};

export function metricName(metric) {
  return METRICS[metric] || metric.split("/")[0].replaceAll("_", " ");
}

export const CELL_WORDS = {
  working: "working",
  held_idle: "held but idle",
  free: "free",
  stranded: "free, but stranded",
  spare: "spare",
  lost: "lost",
  unusable: "out of service",
  silent: "silent: no fresh report",
  unknown: "not known",
};

export const ACTION_WORDS = {
  none: "nothing to do",
  unknown: "cause not known",
  watch: "watch it",
  alert_owner: "tell the owner",
  config_problem: "correct the configuration",
  reset_after_drain: "reset after a drain",
  cordon_reset: "cordon, then reset the GPU",
  cordon_reboot: "cordon, then reboot the node",
  hardware_rma: "replace the hardware",
};

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A sentence with exactly one full stop at its end. */
export function full(sentence) {
  return sentence && !/[.!?]$/.test(sentence) ? `${sentence}.` : sentence;
}

/** The same, begun with a capital. */
export function upper(sentence) {
  return full(sentence && sentence[0].toUpperCase() + sentence.slice(1));
}

export function bare(sentence) {
  return sentence.replace(/\.$/, "");
}
