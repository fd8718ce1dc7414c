/** Milliseconds since the epoch with a fraction, alike in all processes of a machine, unlike `Date.now()`, which is whole. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now()
}
