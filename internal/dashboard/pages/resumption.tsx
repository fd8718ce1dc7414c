import { type Blocker, blockerState, type HeldEvents, type Outcome } from '#internal/backoffice/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { pausedProviderOf } from '#internal/settings/index.ts'
import { countText } from '../components/text.tsx'
import { goTo, type PageContext, type PageResult } from '../page.ts'
import { safePath } from '../request.ts'
import { type Paused, settingOf } from './attention.tsx'

/** Resumption of deliveries, or of a provider's calls, for one tenant or for all. */
export interface Resumption {
  readonly tenantId: TenantId | undefined
  /** Name of the pause setting to end. Omit to resume a suspended callback. */
  readonly setting?: string
}

/** Provider whose calls resume. Undefined for deliveries. */
const providerOf = ({ setting }: Resumption) =>
  setting === undefined ? undefined : pausedProviderOf(setting)

/** Returns the object of a sentence: "deliveries to acme". */
export function resumedText({ tenantLabel }: PageContext, resumption: Resumption): string {
  const { tenantId } = resumption
  const whose = tenantId === undefined ? 'all tenants' : tenantLabel(tenantId)
  const provider = providerOf(resumption)
  return provider === undefined ? `deliveries to ${whose}` : `calls of ${provider} for ${whose}`
}

/** Returns a sentence about how many events wait; empty if the number is unknown. */
export function waitingText(held: Outcome<HeldEvents>): string {
  if (held.kind !== 'ok') return ''
  const { count, isCut } = held.value
  if (isCut) return `More than ${countText(count)} events wait.`
  return count === 0
    ? 'No event waits.'
    : `${countText(count)} ${count === 1 ? 'event waits' : 'events wait'}.`
}

/** Returns the rest of the sentence "… were resumed": what happens to the events that waited. */
function sentText(held: Outcome<HeldEvents>, rest: string): string {
  if (held.kind !== 'ok') return '.'
  const { count, isCut } = held.value
  if (count === 0) return '; no event waits.'
  const events = `${isCut ? 'more than ' : ''}${countText(count)} ${count === 1 ? 'event' : 'events'}`
  if (rest !== '') return `; ${events} ${count === 1 && !isCut ? 'waits' : 'wait'}.`
  return `; ${events} ${count === 1 && !isCut ? 'is' : 'are'} being sent.`
}

/** Returns a text about how many events wait and what still holds them back, before a resumption or, with `isDone`, right after it. */
export async function readOutlook(
  context: PageContext,
  { isDone = false, ...resumption }: Resumption & { readonly isDone?: boolean },
): Promise<{
  readonly text: string
  /** True if events are still held back or being delivered, so that the result is not certain yet. */
  readonly isPending: boolean
}> {
  const { backoffice, actor, tenantLabel } = context
  const { tenantId } = resumption
  const selection = tenantId === undefined ? {} : { tenantId }
  const [read, held] = await Promise.all([
    backoffice.attention.blockers(actor, selection),
    backoffice.attention.held(actor, { ...selection, isAnyDue: true }),
  ])
  const blockers =
    read.kind === 'ok' ? read.value.blockers.filter((blocker) => !isEnding(blocker, resumption)) : []
  const causeOf = (blocker: Blocker) => blockerState(blocker, tenantLabel).cause
  const what = resumedText(context, resumption)
  const subject = what.charAt(0).toUpperCase() + what.slice(1)
  if (providerOf(resumption) !== undefined) {
    const other = blockers.find(
      (blocker) => 'provider' in blocker && settingOf(blocker) === resumption.setting,
    )
    if (other === undefined || (other.tenantId !== null && tenantId === undefined))
      return { text: `${subject} are accepted again within two seconds.`, isPending: false }
    return { text: `${subject} are still refused: ${causeOf(other)}.`, isPending: true }
  }
  const standing = blockers.filter(
    (blocker) =>
      blockerState(blocker).isStanding && (blocker.tenantId === null || blocker.tenantId === tenantId),
  )
  if (standing.length > 0)
    return {
      text: `${subject} still wait. ${standing.map((blocker) => `${causeOf(blocker)}.`).join(' ')} ${waitingText(held)}`.trim(),
      isPending: true,
    }
  const rest = restText(blockers)
  if (!isDone)
    return {
      text: [`${subject} resume.`, waitingText(held), rest].filter(Boolean).join(' '),
      isPending: false,
    }
  const count = held.kind === 'ok' ? held.value.count : 0
  const text = [`${subject} were resumed${sentText(held, rest)}`, rest].filter(Boolean).join(' ')
  return { text, isPending: count > 0 || rest !== '' }
}

function isEnding(blocker: Blocker, { setting, tenantId }: Resumption): boolean {
  if (setting === undefined) return blocker.kind === 'callback_suspended'
  return 'by' in blocker && settingOf(blocker) === setting && blocker.tenantId === (tenantId ?? null)
}

/** Returns a text about what still delays some deliveries after the resumption; empty if nothing does. */
function restText(blockers: readonly Blocker[]): string {
  const paused = blockers.filter((blocker): blocker is Paused => blocker.kind === 'forwarding_paused').length
  if (paused > 0)
    return `${countText(paused)} ${paused === 1 ? 'tenant stays' : 'tenants stay'} paused by a setting of ${paused === 1 ? 'its' : 'their'} own.`
  const trouble = blockers.find((blocker) => 'breaker' in blocker && blocker.breaker !== 'closed')
  return trouble === undefined ? '' : 'One event is delivered first, and the others once it has succeeded.'
}

/** Returns the page to go to next: `next` if the form names it, otherwise `path`. */
export const nextOf = (next: string | undefined, path: string): string =>
  next === undefined ? path : safePath(next)

/** Redirects with a message that says what was resumed, or what still holds it back. */
export async function resumedAt(
  path: string,
  context: PageContext,
  resumption: Resumption,
): Promise<PageResult> {
  const { text, isPending } = await readOutlook(context, { ...resumption, isDone: true })
  return goTo(path, text, isPending ? 'info' : 'good')
}
