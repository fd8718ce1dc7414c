import type { TenantId } from '#internal/base/index.ts'
import { type ReplayFilter, replayRateMax } from '#internal/replays/index.ts'
import { neutralProviderName } from '#internal/tenants/index.ts'
import { link } from '../page.ts'
import { orderProblem, parseTimeField, timeFieldText, timeProblem } from '../time-field.ts'

/** States of which events can be replayed. */
export const replayedStates = ['delivery_failed', 'processed', 'verified'] as const

/** What a form for a replay asks for, read. */
export type ReplayAsked =
  | { readonly kind: 'asked'; readonly filter: ReplayFilter; readonly ratePerSecond: number }
  | { readonly kind: 'wrong'; readonly problems: ReplayProblems }

/** What is wrong with a field, by its name. */
export type ReplayProblems = Readonly<Partial<Record<'from' | 'to' | 'rate' | 'state' | 'provider', string>>>

/** Events a second unless told otherwise. */
export const rateDefault = 50

/**
 * Reads the fields of a form for a replay. Where no end is given it is the end of this second, so that what is previewed is what is
 * replayed, and nothing is left out that is there by now. Pure.
 */
export function parseReplayForm(
  fields: Readonly<Record<string, string>>,
  { tenantId, nowMs }: { readonly tenantId: TenantId | undefined; readonly nowMs: number },
): ReplayAsked {
  const problems: { -readonly [Name in keyof ReplayProblems]: string } = {}
  const text = (name: string) => (fields[name] === '' ? undefined : fields[name])
  const fromMs = parseTimeField(text('from') ?? '')
  if (fromMs === undefined) problems.from = timeProblem
  const toMs = text('to') === undefined ? Math.ceil(nowMs / 1_000) * 1_000 : parseTimeField(text('to') ?? '')
  if (toMs === undefined) problems.to = timeProblem
  else if (fromMs !== undefined && fromMs >= toMs) problems.to = orderProblem
  const state = replayedStates.find((each) => each === text('state'))
  if (text('state') !== undefined && state === undefined) problems.state = 'Choose one of these states'
  const provider = text('provider') === undefined ? undefined : neutralProviderName(text('provider') ?? '')
  if (text('provider') !== undefined && provider === undefined)
    problems.provider = 'There is no such provider'
  const ratePerSecond = Number(text('rate') ?? rateDefault)
  if (!Number.isInteger(ratePerSecond) || ratePerSecond < 1 || ratePerSecond > replayRateMax)
    problems.rate = `1 to ${replayRateMax} events a second`
  if (Object.keys(problems).length > 0 || fromMs === undefined || toMs === undefined)
    return { kind: 'wrong', problems }
  const type = text('type')
  return {
    kind: 'asked',
    ratePerSecond,
    filter: {
      ...{ fromMs, toMs },
      ...(tenantId !== undefined && { tenantId }),
      ...(provider !== undefined && { provider }),
      ...(type !== undefined && { type }),
      ...(state !== undefined && { state }),
    },
  }
}

/** The fields that would ask for a replay, for a form that sends them once more or a link. Pure. */
export function replayFields({
  filter,
  ratePerSecond,
}: Pick<Extract<ReplayAsked, { kind: 'asked' }>, 'filter' | 'ratePerSecond'>): Readonly<
  Record<string, string | undefined>
> {
  const { tenantId, provider, type, state, fromMs, toMs } = filter
  return {
    ...{ tenant: tenantId, state, provider, type, from: timeFieldText(fromMs) },
    to: toMs === undefined ? undefined : timeFieldText(toMs),
    rate: String(ratePerSecond),
  }
}

/** Where the events of a replay are listed, whatever has become of them since. Pure. */
export function eventsLink({ tenantId, provider, type, fromMs, toMs }: ReplayFilter): string {
  return link('/events', {
    ...{ tenant: tenantId, provider, type, from: timeFieldText(fromMs) },
    to: toMs === undefined ? undefined : timeFieldText(toMs),
  })
}
