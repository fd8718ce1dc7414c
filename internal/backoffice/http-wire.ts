/** Names of moments: they go out as RFC 3339, under the name without `Ms`. Durations keep theirs. */
const momentName = /^(at|since|until|from|to|hour|.*(At|Since|Until))Ms$/

/**
 * Makes of a value what the contract sends: moments as text, `undefined` left out. What holds payloads as received is not for this.
 */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire)
  if (value instanceof Set) return [...value].map(toWire)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).flatMap(([name, inner]) => memberOf(name, inner)))
}

function memberOf(name: string, value: unknown): [string, unknown][] {
  if (value === undefined) return []
  if (!momentName.test(name)) return [[name, toWire(value)]]
  return [[name.slice(0, -'Ms'.length), typeof value === 'number' ? new Date(value).toISOString() : null]]
}
