/** A figure that is held to a bound. */
export interface Held {
  readonly name: string
  readonly value: number
  readonly unit?: string
  /** The value may be this or more. */
  readonly atLeast?: number
  /** The value may be this or less. */
  readonly atMost?: number
}

/** Whether a figure is within its bound; one that could not be taken, NaN, is not. */
export function isKept({ value, atLeast, atMost }: Held): boolean {
  return (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost)
}

/** A table of figures with their bounds, a line each. */
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
