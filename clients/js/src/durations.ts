const unit: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Reads a duration as the server writes it: "30s", "1h30m", "7d", or whole seconds. Milliseconds, or undefined where
 * the text is no duration.
 */
export function parseDuration(text: string | number | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d+$/.test(String(text))) {
    const ms = Number(text) * 1_000;
    return Number.isSafeInteger(ms) ? ms : undefined;
  }
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(String(text))) return undefined;
  let ms = 0;
  for (const [, amount, name] of String(text).matchAll(/([\d.]+)(ms|s|m|h|d)/g)) {
    ms += Number(amount) * (unit[name ?? ""] ?? 0);
  }
  return ms;
}

/** A duration given in code: milliseconds, or text as the server takes it ("30s"). */
export type Duration = number | string;

/** Writes a duration for the server. */
export function durationText(d: Duration): string {
  return typeof d === "number" ? `${Math.max(0, Math.round(d))}ms` : d;
}

/** A duration given in code as milliseconds; throws where the text is none. */
export function durationMs(d: Duration): number {
  const ms = typeof d === "number" ? d : parseDuration(d);
  if (ms === undefined || !(ms >= 0)) throw new RangeError(`"${d}" is not a duration such as "30s"`);
  return ms;
}
