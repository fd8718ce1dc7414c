import type { Form } from '../request.ts'
import { dayStartMs, type ReaderClock } from './clock.ts'
import type { Choice } from './form.tsx'

const hourMs = 3_600_000
const spans = [
  { value: 'today', label: 'Today', ms: undefined },
  { value: 'yesterday', label: 'Yesterday', ms: undefined },
  { value: '1h', label: 'Last hour', ms: hourMs },
  { value: '24h', label: 'Last 24 hours', ms: 24 * hourMs },
  { value: '7d', label: 'Last 7 days', ms: 168 * hourMs },
  { value: '30d', label: 'Last 30 days', ms: 720 * hourMs },
] as const

export const receivedChoices: readonly Choice<(typeof spans)[number]['value']>[] = spans

/** Returns a time range with inclusive start and exclusive end. `from` or `to` override `within`. Days are in the reader's zone. */
export function receivedRange(
  {
    within,
    from,
    to,
  }: {
    readonly within?: string | undefined
    readonly from?: number | undefined
    readonly to?: number | undefined
  },
  clock: ReaderClock,
): { readonly fromMs: number | undefined; readonly toMs: number | undefined } {
  if (from !== undefined || to !== undefined) return { fromMs: from, toMs: to }
  if (within === 'today') return { fromMs: dayStartMs(clock), toMs: undefined }
  if (within === 'yesterday') return { fromMs: dayStartMs(clock, 1), toMs: dayStartMs(clock) }
  const ms = spans.find(({ value }) => value === within)?.ms
  return { fromMs: ms === undefined ? undefined : clock.nowMs - ms, toMs: undefined }
}

/** Drops the choice `within` if exact times override it, so that a page shows only the times that apply. */
export function appliedTimes(query: Form): Form {
  const { within, ...others } = query
  const isExact = Boolean(others['from'] || others['to'])
  return within === undefined || isExact ? others : query
}

export function replacedChoice(query: Form): string | undefined {
  if (appliedTimes(query) === query) return undefined
  return spans.find(({ value }) => value === query['within'])?.label
}
