import type { ComponentChildren } from 'preact'
import { type Attention, type AttentionList, type Blocker, blockerState } from '#internal/backoffice/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { Card, Notice } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { Ago, Badge, countText, durationText, Time, type Tone } from '../components/text.tsx'
import { link, type PageContext, type Rights } from '../page.ts'
import { reasonText } from './tenants.tsx'
import { amountText, labelsOf } from './usage.tsx'

interface Described {
  readonly id: string
  readonly tone: Tone
  readonly title: string
  readonly text: ComponentChildren
  readonly action?: { readonly label: string; readonly href: string; readonly right: keyof Rights }
  readonly owner: TenantId | 'all'
  readonly tenantId?: TenantId | undefined
  readonly by?: string
  readonly startedAtMs?: number | undefined
}

/** Maximum number of tenants that a notice about single tenants names. */
const namedMax = 5
/** Maximum number of notices of a page. The settings page lists all pauses. */
const noticesMax = 10

/**
 * Renders blockers as notices. On pages of all tenants, blockers of single tenants with the same cause share a notice. During live updates
 * the script keeps elements with `data-notice` in place: notices that have ended stay, and new ones are not shown yet.
 */
export async function blockerNotices(
  context: PageContext,
  blockers: readonly Blocker[],
  tenantId: TenantId | undefined,
): Promise<ComponentChildren> {
  const isOfOne = (blocker: Blocker): blocker is BlockerOfOne =>
    tenantId === undefined &&
    blocker.tenantId !== null &&
    (isPause(blocker) || blocker.kind === 'callback_suspended')
  const own = blockers.filter((blocker) => !isOfOne(blocker))
  const groups = [...Map.groupBy(blockers.filter(isOfOne), causeOf).values()]
  const shownOwn = own.slice(0, noticesMax)
  const shownGroups = groups.slice(0, noticesMax - shownOwn.length)
  const named = shownGroups.map((group) => group.slice(0, namedMax))
  // Reads the rights once for all notices.
  const described = await withActions(
    context,
    [...shownOwn, ...named.flat()].map((blocker) => describe(context, blocker)),
  )
  const ofGroups = described.slice(shownOwn.length)
  const hiddenCount = own.length + groups.length - shownOwn.length - shownGroups.length
  return (
    <>
      {described.slice(0, shownOwn.length).map(({ id, tone, title, text, action }) => (
        <Notice id={id} tone={tone} title={title} isHeld>
          <p>{text}</p>
          {action && (
            <p>
              <LinkButton href={action.href}>{action.label}</LinkButton>
            </p>
          )}
        </Notice>
      ))}
      {shownGroups.map((group, at) => (
        <BlockersNotice context={context} group={group} named={ofGroups.splice(0, named[at]?.length ?? 0)} />
      ))}
      {hiddenCount > 0 && (
        <Notice tone="warn" id="blockers-more" title={`${countText(hiddenCount)} more pauses`}>
          <p>
            All are listed in <a href="/settings">settings</a>.
          </p>
        </Notice>
      )}
    </>
  )
}

export type Paused = Extract<Blocker, { kind: 'forwarding_paused' | 'provider_paused' }>

export const isPause = (blocker: Blocker): blocker is Paused =>
  blocker.kind === 'forwarding_paused' || blocker.kind === 'provider_paused'

export function settingOf(pause: Paused): string {
  return pause.kind === 'forwarding_paused' ? 'forwarding.paused' : `providers.${pause.provider}.paused`
}

type BlockerOfOne = Paused | Extract<Blocker, { kind: 'callback_suspended' }>

/** Returns the key by which blockers of single tenants are grouped. Each group is shown in one notice. */
const causeOf = (blocker: BlockerOfOne): string =>
  blocker.kind === 'callback_suspended' ? 'callback.suspended' : settingOf(blocker)

function groupTitle(first: BlockerOfOne, count: number): string {
  const whose = `${countText(count)} ${count === 1 ? 'tenant' : 'tenants'}`
  if (first.kind === 'callback_suspended')
    return `${count === 1 ? 'The callback is' : 'Callbacks are'} suspended for ${whose}`
  const what = first.kind === 'forwarding_paused' ? 'Forwarding' : `Provider ${first.provider}`
  return `${what} is paused for ${whose}`
}

function BlockersNotice(props: {
  readonly context: PageContext
  readonly group: readonly BlockerOfOne[]
  readonly named: readonly Described[]
}) {
  const { context, group, named } = props
  const [first] = group
  if (first === undefined) return null
  return (
    <Notice
      tone="warn"
      id={`blockers-${causeOf(first).replaceAll('.', '-')}`}
      title={groupTitle(first, group.length)}
    >
      <ul class="blocked">
        {named.map(({ id, title, tenantId, by, startedAtMs, action }) => (
          <li id={id} data-notice={title}>
            {tenantId && <a href={`/tenants/${tenantId}`}>{context.tenantLabel(tenantId)}</a>}
            {by !== undefined && ` by ${by}`}
            {startedAtMs !== undefined && (
              <>
                , <Ago atMs={startedAtMs} nowMs={context.nowMs} />
              </>
            )}{' '}
            {action && (
              <LinkButton href={action.href}>
                {action.label}
                <span class="visually-hidden"> {title}</span>
              </LinkButton>
            )}
          </li>
        ))}
      </ul>
      {group.length > named.length && (
        <p>
          And {countText(group.length - named.length)} more:{' '}
          {isPause(first) ? <a href={`/settings#${settingOf(first)}`}>settings</a> : <a href="/">overview</a>}
          .
        </p>
      )}
    </Notice>
  )
}

async function withActions(
  { backoffice, actor }: PageContext,
  described: readonly Described[],
): Promise<readonly Described[]> {
  const rightsOn = async (owner: Described['owner']) => {
    const read = await backoffice.tenants.permissions(actor, owner)
    return read.kind === 'ok' ? read.value : undefined
  }
  const owners = new Set(described.flatMap(({ action, owner }) => (action ? [owner] : [])))
  // A right on all tenants includes every tenant, so the API server is first asked once for all instead of once per tenant.
  const onAll = owners.size > 1 ? await rightsOn('all') : undefined
  const isForAll = described.every(({ action }) => !action || onAll?.[action.right] === true)
  const rights = isForAll
    ? undefined
    : new Map(await Promise.all([...owners].map(async (owner) => [owner, await rightsOn(owner)] as const)))
  return described.map(({ action, ...rest }) => {
    const own = rights === undefined ? onAll : rights.get(rest.owner)
    return action && own?.[action.right] === true ? { ...rest, action } : rest
  })
}

function describeBlocker({ nowMs, tenantLabel, here }: PageContext, blocker: Blocker): Described {
  const { title, cause, effect, severity } = blockerState(blocker, tenantLabel)
  const startedAtMs = 'startedAtMs' in blocker ? blocker.startedAtMs : undefined
  const endsAtMs = 'endsAtMs' in blocker ? blocker.endsAtMs : undefined
  const id = `blocker-${blocker.kind}-${'provider' in blocker ? `${blocker.provider}-` : ''}${blocker.tenantId ?? 'all'}`
  return {
    id,
    title,
    startedAtMs,
    tone: severity,
    owner: blocker.tenantId ?? 'all',
    tenantId: blocker.tenantId ?? undefined,
    ...('by' in blocker && { by: blocker.by }),
    text: (
      <>
        {cause}: {effect}.
        {startedAtMs !== undefined && (
          <>
            {' '}
            Since <Time atMs={startedAtMs} />, <Ago atMs={startedAtMs} nowMs={nowMs} />.
          </>
        )}
        {endsAtMs !== undefined && (
          <>
            {' '}
            Next probe: <Time atMs={endsAtMs} />.
          </>
        )}
      </>
    ),
    ...blockerAction(blocker, here),
  }
}

export const clearPath = '/settings/clear'

/** Returns the link to the action that ends a blocker. None for a suspended tenant or a failing callback, which no action ends. */
function blockerAction(blocker: Blocker, here: string): Pick<Described, 'action'> {
  const [path = here] = here.split('?')
  // Shows no link on the confirmation page of the action, which has the button itself.
  if (path === clearPath || path.endsWith('/resume')) return {}
  if (isPause(blocker)) {
    const query = { name: settingOf(blocker), tenant: blocker.tenantId ?? undefined, next: here }
    const href = link(clearPath, query)
    return { action: { label: 'Resume', href, right: 'changeSettings' } }
  }
  if (blocker.kind !== 'callback_suspended') return {}
  const href = link(`/tenants/${blocker.tenantId}/resume`, { next: here })
  return { action: { label: 'Resume deliveries', href, right: 'replay' } }
}

function acceptedText(count: number, one = '', many = '') {
  const verb = count === 1 ? one : many
  return `${countText(count)} accepted ${count === 1 ? 'event' : 'events'}${verb && ` ${verb}`}`
}

function describe(context: PageContext, item: Attention): Described {
  switch (item.kind) {
    case 'spool_in_use':
      return {
        id: 'spool',
        tone: 'warn',
        title: 'Spool in use',
        owner: 'all',
        text: `${acceptedText(item.count, 'is', 'are')} in Redis until Postgres stores ${item.count === 1 ? 'it' : 'them'}, for ${durationText(item.oldestAgeMs)} so far. If the number does not fall, Postgres or the drain of the spool is failing: see the runbook “spool in use”.`,
      }
    case 'dead_entries':
      return {
        id: 'dead-letters',
        tone: 'bad',
        title: 'Dead letters in the spool',
        owner: 'all',
        text: `${acceptedText(item.count)} could not be stored and ${item.count === 1 ? 'is' : 'are'} not retried. Follow the runbook “spool dead entries”.`,
      }
    case 'tenant_not_ready':
      return {
        id: `not-ready-${item.tenantId}`,
        tone: 'bad',
        title: 'Tenant not ready',
        owner: item.tenantId,
        tenantId: item.tenantId,
        text: `${reasonText(item.reason)}. The conditions on the tenant’s page say what to do.`,
      }
    case 'limit_near': {
      const { limit, used, hard, tenantId } = item
      const { label, window } = labelsOf(limit)
      return {
        tone: used >= hard ? 'bad' : 'warn',
        owner: tenantId,
        tenantId,
        id: `limit-${limit}-${tenantId}`,
        title: used >= hard ? 'Limit reached' : 'Limit near',
        text: `${label}: ${amountText(limit, used)} of ${amountText(limit, hard)} ${window}.`,
      }
    }
    default:
      return describeBlocker(context, item)
  }
}

export async function attentionCard(
  context: PageContext,
  { items, isCut }: AttentionList,
): Promise<ComponentChildren> {
  if (items.length === 0) return <div id="attention" data-hold="" />
  const described = await withActions(
    context,
    items.map((item) => describe(context, item)),
  )
  return (
    <div id="attention" data-hold="">
      <Card title="Needs attention" note={isCut ? 'the first of each kind' : undefined}>
        <ul class="attention">
          {described.map(({ id, tone, title, text, action, tenantId }) => (
            <li
              id={id}
              data-notice={tenantId === undefined ? title : `${title} (${context.tenantLabel(tenantId)})`}
            >
              <Badge tone={tone}>{title}</Badge>
              <span class="attention-text">
                {tenantId !== undefined && context.tenant === undefined && (
                  <a href={`/tenants/${tenantId}`}>{context.tenantLabel(tenantId)}</a>
                )}{' '}
                {text}
              </span>
              {action && <LinkButton href={action.href}>{action.label}</LinkButton>}
            </li>
          ))}
        </ul>
      </Card>
    </div>
  )
}
