// Colours: viridis for magnitude, Okabe-Ito for class, and the theme's own from the style sheet.

const VIRIDIS = [
  [68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140],
  [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37],
];

export const SHADES = 48;
const shades = Array.from({ length: SHADES }, (_, shade) => {
  const place = (shade / (SHADES - 1)) * (VIRIDIS.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, VIRIDIS.length - 1);
  const mix = VIRIDIS[low].map((from, i) => Math.round(from + (VIRIDIS[high][i] - from) * (place - low)));
  return `rgb(${mix.join(",")})`;
});

/** Which of the scale's shades a share from 0 to 1 has. */
export function shadeOf(ratio) {
  return Math.round(Math.min(Math.max(ratio, 0), 1) * (SHADES - 1));
}

export const shadeColour = (shade) => shades[shade];

/** The colour of a share from 0 to 1. */
export const viridis = (ratio) => shades[shadeOf(ratio)];

const NAMES = ["bg", "panel", "line", "text", "dim", "faint", "sky", "orange", "bad", "green", "pink", "hollow"];
let known = null;

/** The theme's colours as the style sheet has them now. */
export function theme() {
  if (known) return known;
  const style = getComputedStyle(document.documentElement);
  known = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  known.font = getComputedStyle(document.body).fontFamily;
  return known;
}

export function onThemeChange(listener) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    known = null;
    listener();
  });
}

/** The colour of a severity: the class scale. */
export function severityColour(severity) {
  const colours = theme();
  return { critical: colours.bad, warning: colours.orange, info: colours.sky }[severity] || colours.faint;
}

/** Who waits has a colour, in the order of waiting. */
export function waitingColour(place) {
  const colours = theme();
  return [colours.orange, colours.pink, colours.sky, colours.green][Math.max(place, 0) % 4];
}
