const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Reads a duration such as `90s`, `1h30m` or `250ms` in milliseconds; undefined for any other text. */
export function parseDurationMs(text: string): number | undefined {
  if (!/^([0-9]{1,12}(ms|s|m|h))+$/.test(text)) return undefined
  let totalMs = 0
  for (const [, count, unit] of text.matchAll(/([0-9]+)(ms|s|m|h)/g)) {
    totalMs += Number(count) * (unitMs[unit ?? ''] ?? Number.NaN)
  }
  return totalMs
}
