// What the fleet can be coloured by: the board's own numbers, findings by severity, or any metric of the readings.

import { get } from "./live.js";
import { t } from "./say.js";
import { changed, finding, state } from "./state.js";
import { metricName, unitOf } from "./words.js";

/** The board's own: how to read them, and their scale. */
export const MEASURES = {
  activity: { field: "activity_ratio", unit: "ratio", low: 0, high: 1 },
  temperature: { field: "temperature_celsius", unit: "celsius", low: 20, high: 95 },
  power: { field: "power_watts", unit: "watts", low: 0, high: 700 },
  clock: { field: "sm_clock_hertz", unit: "hertz", low: 0, high: 2e9 },
  memory: { field: "memory_used_ratio", unit: "ratio", low: 0, high: 1 },
};

export const measureLabel = (name) => t(`measure-${name}`);

/** A metric that was asked for: its name, the board it is of, its values in the order of the cells. */
const asked = { names: null, metric: null, of: null, values: null, low: 0, high: 1, error: "" };

/** Names of all metrics that the GPUs have now, once they are known. */
export function otherMetrics() {
  if (asked.names === null) {
    asked.names = [];
    get("/api/v1/fleet/metrics").then(
      (said) => {
        asked.names = said.metrics.map((one) => one.name);
        changed();
      },
      () => {}, // Then there is nothing to choose beside the board's own.
    );
  }
  return asked.names;
}

/** How to colour by `name`: `{ shareOf(cell), label, unit, low, high }`; shareOf gives 0 … 1, or null. */
export function colouring(name) {
  if (name === "findings") return { label: t("measure-findings"), classOf: severityOf };
  const measure = MEASURES[name];
  if (!measure) return byMetric(name);
  const { field, unit, low, high } = measure;
  const valueOf = state.fleet.reader(field);
  const shareOf = (cell) => {
    const value = valueOf(cell);
    return value === null ? null : (value - low) / (high - low);
  };
  return { label: measureLabel(name), unit, low, high, shareOf, valueOf };
}

const RANK = { critical: 3, warning: 2, info: 1 };

/** The worst severity of what is open about a GPU or its node; null where nothing is. */
function severityOf(cell) {
  const { fleet } = state;
  const ids = [...(fleet.cellFindings.get(cell) || []), ...(fleet.nodeFindings.get(fleet.owner[cell]) || [])];
  let worst = null;
  for (const id of ids) {
    const severity = finding(id)?.finding.severity;
    if (severity && (!worst || RANK[severity] > RANK[worst])) worst = severity;
  }
  return worst;
}

function byMetric(metric) {
  if (state.past) return { label: metricName(metric), unit: unitOf(metric), low: 0, high: 1, shareOf: () => null, valueOf: () => null, note: t("fleet-metric-now-only") };
  if (asked.metric !== metric || asked.of !== state.board.at) ask(metric);
  const { values, low, high } = asked;
  const isReady = asked.metric === metric && values?.length === state.fleet.size;
  const valueOf = (cell) => (isReady ? values[cell] : null);
  const shareOf = (cell) => {
    const value = valueOf(cell);
    return value === null ? null : (value - low) / (high - low || 1);
  };
  return { label: metricName(metric), unit: unitOf(metric), low, high, shareOf, valueOf, note: asked.error };
}

function ask(metric) {
  const of = state.board.at;
  if (asked.metric !== metric) asked.values = null;
  Object.assign(asked, { metric, of, error: "" });
  get(`/api/v1/fleet/values?metric=${encodeURIComponent(metric)}`).then(
    (said) => {
      if (asked.metric !== metric) return;
      asked.values = said.values;
      [asked.low, asked.high] = scale(said.values, unitOf(metric));
      changed();
    },
    (error) => {
      asked.error = error.message;
      changed();
    },
  );
}

/** From the least to the most, a ratio from 0 to 1; so wide that noise looks like noise. */
function scale(values, unit) {
  const seen = values.filter((value) => value !== null);
  if (unit === "ratio" || !seen.length) return [0, 1];
  let [low, high] = [Infinity, -Infinity];
  for (const value of seen) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [Math.min(low, high * 0.8), high || 1];
}
