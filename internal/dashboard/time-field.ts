const form = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?)?(?:\.\d{1,3})?Z?$/
const yearMin = 2000
const yearMax = 2100

/** What to say of a field whose text is no time. */
export const timeProblem = 'Give a time in UTC, such as 2026-11-21T19:50'

/** What to say of an end that is no later than its beginning. */
export const orderProblem = 'The end has to be later than the beginning'

/** Reads a field of kind `time`, in UTC, to the second or a day alone: ms since the epoch; undefined for what is no time. Pure. */
export function parseTimeField(text: string): number | undefined {
  const [, day, minute = '00:00', second = ':00'] = form.exec(text) ?? []
  if (day === undefined) return undefined
  const iso = `${day}T${minute}${second}.000Z`
  const atMs = Date.parse(iso)
  if (Number.isNaN(atMs)) return undefined
  const date = new Date(atMs)
  // A day that its month has not got would be one of the next.
  const isReal = date.toISOString() === iso
  return isReal && date.getUTCFullYear() >= yearMin && date.getUTCFullYear() < yearMax ? atMs : undefined
}

/** Reads fields of kind `time` between which something lies, and says what is wrong with either. Pure. */
export function parseTimeFields({ from, to }: { readonly from?: string; readonly to?: string }): {
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  readonly problems: { readonly from?: string; readonly to?: string }
} {
  const fromMs = from === undefined ? undefined : parseTimeField(from)
  const toMs = to === undefined ? undefined : parseTimeField(to)
  const isBackwards = fromMs !== undefined && toMs !== undefined && fromMs >= toMs
  const problems = {
    ...(from !== undefined && fromMs === undefined && { from: timeProblem }),
    ...(to !== undefined && toMs === undefined && { to: timeProblem }),
    ...(isBackwards && { to: orderProblem }),
  }
  return { fromMs, toMs, problems }
}

/** The text of a field of kind `time`, in UTC to the second. Pure. */
export function timeFieldText(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19)
}
