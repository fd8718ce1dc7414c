/**
 * A time in the form of Kubernetes' `MicroTime`: exactly six digits of a second, since the server refuses any other count.
 * @param ms milliseconds since the Unix epoch
 */
export function formatMicroTime(ms: number): string {
  return new Date(ms).toISOString().replace(/Z$/, '000Z')
}
