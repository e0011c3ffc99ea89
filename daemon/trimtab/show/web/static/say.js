// The words in the language of the person: one Fluent file each, the same that the daemon's messages are made from.

import { FluentBundle, FluentResource } from "./vendor/fluent/index.js";

export const LOCALES = { en: "EN", "zh-CN": "中文" };
const KEPT = "trimtab.locale";
const bundles = new Map();
const listeners = [];

function remembered() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // Storage may be off; then the browser's language stands.
  }
}

function chosen() {
  const kept = remembered();
  if (kept in LOCALES) return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

export let locale = chosen();

async function load(name) {
  if (bundles.has(name)) return;
  const response = await fetch(new URL(`words/${name}.ftl`, import.meta.url));
  const bundle = new FluentBundle(name, { useIsolating: false });
  bundle.addResource(new FluentResource(await response.text()));
  bundles.set(name, bundle);
}

/** The text of a key; English where the language lacks it, the key itself where nobody wrote it. */
export function t(key, args) {
  for (const name of [locale, "en"]) {
    const bundle = bundles.get(name);
    const pattern = bundle?.getMessage(key)?.value;
    if (pattern) return bundle.formatPattern(pattern, args, []);
  }
  return key;
}

/** The same, or null where no language knows the key: for names that the daemon may add. */
export function known(key, args) {
  const isKnown = [locale, "en"].some((name) => bundles.get(name)?.hasMessage(key));
  return isKnown ? t(key, args) : null;
}

/** What stands between two sentences. */
export const gap = () => (locale === "en" ? " " : "");

export function onLocaleChange(listener) {
  listeners.push(listener);
}

export async function speak(name) {
  await load(name);
  locale = name;
  try {
    localStorage.setItem(KEPT, name);
  } catch {
    // Then it holds for this page alone.
  }
  document.documentElement.lang = name;
  for (const listener of listeners) listener();
}

document.documentElement.lang = locale;
await Promise.all([...new Set([locale, "en"])].map(load));
