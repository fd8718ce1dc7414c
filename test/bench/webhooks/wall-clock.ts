/** Returns fractional milliseconds since the epoch, comparable between processes of a machine; `Date.now()` is integral. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now()
}
