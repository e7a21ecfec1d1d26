const steps: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "minute"],
  [24, "hour"],
  [7, "day"],
];

/** Some browsers list languages that are none, and pages have such as "en_US". */
function isLocale(language: string): boolean {
  try {
    return Intl.getCanonicalLocales(language).length > 0;
  } catch {
    return false;
  }
}

/** How long ago something was, up to a week, then its day; and the time in full. */
export function age(at: Date, language: string, now = Date.now()): { text: string; full: string } {
  // The browser's own variant of the language: a reader in the United Kingdom has other dates than one in America.
  const locale = [...navigator.languages.filter((l) => l.split("-")[0] === language), language].find(isLocale) ?? "en";
  const full = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "short" }).format(at);
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
  let amount = Math.max(0, now - at.getTime()) / 60_000;
  if (amount < 1) return { text: relative.format(0, "second"), full };
  for (const [size, unit] of steps) {
    if (amount < size) return { text: relative.format(-Math.floor(amount), unit), full };
    amount /= size;
  }
  const year = at.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return { text: new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year }).format(at), full };
}
