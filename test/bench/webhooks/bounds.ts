/** Measurement with a bound. */
export interface Held {
  readonly name: string
  readonly value: number
  readonly unit?: string
  /** Lower bound, inclusive. */
  readonly atLeast?: number
  /** Upper bound, inclusive. */
  readonly atMost?: number
}

/** Returns whether a measurement is within its bound; NaN is not. */
export function isKept({ value, atLeast, atMost }: Held): boolean {
  return (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost)
}

/** Formats a table of measurements and their bounds. */
export function boundsTable(figures: readonly Held[]): readonly string[] {
  const rows = figures.map((held) => {
    const { name, value, unit = '', atLeast, atMost } = held
    const bound = atLeast === undefined ? `≤ ${atMost}` : `≥ ${atLeast}`
    return `| ${name} | ${short(value)}${unit} | ${bound}${unit} | ${isKept(held) ? 'kept' : 'missed'} |`
  })
  return ['| figure | measured | bound | |', '|---|---|---|---|', ...rows]
}

function short(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(Math.abs(value) >= 10 ? 1 : 2)
}
