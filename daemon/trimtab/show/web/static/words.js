// How the page speaks: ages, times, numbers with their units, the words for states.

import { known, locale, t } from "./say.js";

/** `41 s`, `12 min`, `3 h`, `2 d`: as the verbs say it. */
export function age(seconds) {
  const s = Math.max(seconds, 0);
  if (s < 120) return t("age-seconds", { n: String(Math.round(s)) });
  if (s < 7200) return t("age-minutes", { n: String(Math.round(s / 60)) });
  if (s < 172800) return t("age-hours", { n: String(Math.round(s / 3600)) });
  return t("age-days", { n: String(Math.round(s / 86400)) });
}

export function secondsBetween(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

/** The age of a moment as of the board. */
export function ageAt(moment, at) {
  return age(secondsBetween(moment, at));
}

const formats = new Map();

function format(name, options) {
  const key = `${locale}/${name}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale === "en" ? "en-GB" : locale, options));
  return formats.get(key);
}

const time = (date) => format("time", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(date);
const day = (date) => format("day", { day: "numeric", month: "short" }).format(date);

/** `14:44`, with the day where it is another one than `near`'s. */
export function clock(moment, near) {
  const date = new Date(moment);
  const isOtherDay = near && day(new Date(near)) !== day(date);
  return `${isOtherDay ? `${day(date)} ` : ""}${time(date)}`;
}

/** `30 Nov 14:44`. */
export function dayClock(moment) {
  const date = new Date(moment);
  return `${day(date)} ${time(date)}`;
}

export function weekday(moment) {
  return format("weekday", { weekday: "short", day: "numeric" }).format(new Date(moment));
}

export function clockSeconds(moment) {
  return format("seconds", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(new Date(moment));
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
  return t("gpu-hours", { n: value >= 100 ? number(value) : value.toFixed(1) });
}

/** `31.4 GPU-h/day`, `8.0 GPU-h in 4 h`. */
export function gainText(gain) {
  const hours = gain.horizon_hours;
  if (hours === 24) return t("gain-a-day", { gain: gpuHours(gain.gpu_hours) });
  return t("gain-in-hours", { gain: gpuHours(gain.gpu_hours), hours: number(hours) });
}

function bytes(v) {
  const size = Math.abs(v);
  if (size >= 1e9) return `${number(v / 1e9)} GB`;
  return size >= 1e6 ? `${number(v / 1e6)} MB` : size >= 1e3 ? `${number(v / 1e3)} kB` : `${number(v)} B`;
}

const UNITS = {
  celsius: (v) => `${number(v)} °C`,
  watts: (v) => (Math.abs(v) >= 1e4 ? `${number(v / 1000)} kW` : `${number(v)} W`),
  hertz: (v) => (v >= 1e9 ? `${(v / 1e9).toFixed(2)} GHz` : `${Math.round(v / 1e6)} MHz`),
  ratio: (v) => percent(v, v !== 0 && Math.abs(v) < 0.1 ? 1 : 0),
  seconds: (v) => age(v),
  bytes,
  bytes_per_second: (v) => `${bytes(v)}/s`,
  joules: (v) => (Math.abs(v) >= 1e6 ? `${number(v / 1e6)} MJ` : `${number(v)} J`),
};

/** A value with its unit as people say it. */
export function quantity(value, unit) {
  if (value === null || value === undefined) return t("not-known");
  if (UNITS[unit]) return UNITS[unit](value);
  const word = { gpus: "GPUs" }[unit] || unit;
  return word ? `${number(value)} ${word}` : number(value);
}

/** The unit of a metric, read off its name (`power_watts`, `sm_active_ratio`, `ecc_errors_total/uncorrected`). */
export function unitOf(metric) {
  const bare = metric.split("/")[0].replace(/_total$/, "");
  if (bare.endsWith("bytes_per_second")) return "bytes_per_second";
  const last = bare.split("_").pop();
  return UNITS[last] ? last : "";
}

export function metricName(metric) {
  const [name, label] = metric.split("/");
  const words = known(`metric-${name}`) || name.replaceAll("_", " ");
  return label ? `${words} (${label})` : words;
}

export const cellWords = (state) => t(`cell-${state}`);
export const actionWords = (action) => known(`action-${action}`) || action;
export const ruleWords = (rule) => known(`rule-${rule}`) || rule.replaceAll("_", " ");

/** `3 GPUs`, `1 node`: the count and its noun, which is one of the catalogue's `count-…`. */
export function plural(count, noun) {
  return t(`count-${noun}`, { count, n: number(count) });
}

/** A sentence with exactly one full stop at its end. */
export function full(sentence) {
  return sentence && !/[.!?。]$/.test(sentence) ? `${sentence}.` : sentence;
}

/** The same, begun with a capital. */
export function upper(sentence) {
  return full(sentence && sentence[0].toUpperCase() + sentence.slice(1));
}

export function bare(sentence) {
  return sentence.replace(/\.$/, "");
}
