import type { ComponentChildren } from 'preact'
import type { Attention, AttentionList, Halt } from '#internal/backoffice/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { Card, Notice } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { Ago, Badge, countText, durationText, Time, type Tone } from '../components/text.tsx'
import { link, type PageContext, type Rights } from '../page.ts'
import { reasonText } from './tenants.tsx'
import { amountText, labelsOf } from './usage.tsx'

/** One thing that needs attention, in words. */
interface Described {
  readonly tone: Tone
  readonly title: string
  readonly text: ComponentChildren
  /** Link to the action that ends it, and the right that the action needs. */
  readonly action?: { readonly label: string; readonly href: string; readonly right: keyof Rights }
  /** Owner whose rights decide about the action. */
  readonly owner: TenantId | 'all'
  readonly tenantId?: TenantId | undefined
}

const suspensionCauses: Readonly<Record<string, string>> = {
  gone: 'the endpoint returned 410 Gone',
  disabled: 'the endpoint responded with webhook-delivery: disable',
}

/** Renders what halts the tenant of the page, or all tenants, as notices. */
export async function haltNotices(context: PageContext, halts: readonly Halt[]): Promise<ComponentChildren> {
  const shown = await withActions(
    context,
    halts.map((halt) => describe(context, halt)),
  )
  return shown.map(({ tone, title, text, action }) => (
    <Notice tone={tone} title={title}>
      <p>{text}</p>
      {action && (
        <p>
          <a href={action.href}>{action.label}</a>
        </p>
      )}
    </Notice>
  ))
}

/** Removes the actions that the actor may not take. */
async function withActions(
  { backoffice, actor }: PageContext,
  described: readonly Described[],
): Promise<readonly Described[]> {
  const owners = [...new Set(described.flatMap(({ action, owner }) => (action ? [owner] : [])))]
  const rights = new Map(
    await Promise.all(
      owners.map(async (owner) => {
        const read = await backoffice.tenants.permissions(actor, owner)
        return [owner, read.kind === 'ok' ? read.value : undefined] as const
      }),
    ),
  )
  return described.map(({ action, ...rest }) =>
    action && rights.get(rest.owner)?.[action.right] === true ? { ...rest, action } : rest,
  )
}

function describe(context: PageContext, item: Attention): Described {
  const { nowMs } = context
  switch (item.kind) {
    case 'forwarding_paused':
    case 'provider_paused':
      return describePause(context, item)
    case 'tenant_suspended':
      return {
        ...{ tone: 'warn', title: 'Tenant suspended', owner: item.tenantId, tenantId: item.tenantId },
        text: (
          <>
            Its calls are refused and its deliveries are halted until <code>spec.suspended</code> is false.
          </>
        ),
      }
    case 'callback_suspended':
      return {
        ...{ tone: 'bad', title: 'Callback suspended', owner: item.tenantId, tenantId: item.tenantId },
        text: (
          <>
            Suspended <Ago atMs={item.startedAtMs} nowMs={nowMs} />:{' '}
            {suspensionCauses[item.cause] ?? `cause ${item.cause}`}. New events are accepted and wait; no
            attempt is used up.
          </>
        ),
        action: { label: 'Resume deliveries', href: `/tenants/${item.tenantId}/resume`, right: 'replay' },
      }
    case 'breaker_open':
      return {
        ...{ tone: 'warn', title: 'Callback failing', owner: item.tenantId, tenantId: item.tenantId },
        text: (
          <>
            Most recent deliveries failed, so the circuit breaker is open until <Time atMs={item.endsAtMs} />.
            Deliveries then continue automatically; no attempt is used up.
          </>
        ),
      }
    default:
      return describeRest(item)
  }
}

function describePause(
  { nowMs, tenantLabel }: PageContext,
  pause: Extract<Halt, { kind: 'forwarding_paused' | 'provider_paused' }>,
): Described {
  const { tenantId, by = 'the platform team', startedAtMs } = pause
  const name = pause.kind === 'forwarding_paused' ? 'forwarding.paused' : `providers.${pause.provider}.paused`
  const whose = tenantId === null ? 'all tenants' : tenantLabel(tenantId)
  return {
    ...{ tone: 'warn', owner: tenantId ?? 'all', tenantId: tenantId ?? undefined },
    title: `${pause.kind === 'forwarding_paused' ? 'Deliveries' : `Provider ${pause.provider}`} paused for ${whose}`,
    text: (
      <>
        Paused by {by}, <Ago atMs={startedAtMs} nowMs={nowMs} />.{' '}
        {pause.kind === 'forwarding_paused'
          ? 'New events are accepted and wait; no attempt is used up.'
          : 'Its calls are refused with 503, so that the provider repeats them.'}
      </>
    ),
    action: {
      label: 'Resume',
      href: link('/settings/clear', { name, tenant: tenantId ?? undefined }),
      right: 'changeSettings',
    },
  }
}

function acceptedText(count: number, one = '', many = '') {
  const verb = count === 1 ? one : many
  return `${countText(count)} accepted ${count === 1 ? 'event' : 'events'}${verb && ` ${verb}`}`
}

function describeRest(item: Exclude<Attention, Halt>): Described {
  switch (item.kind) {
    case 'spool_in_use':
      return {
        ...{ tone: 'warn', title: 'Spool in use', owner: 'all' },
        text: `${acceptedText(item.count, 'is', 'are')} in Redis until Postgres stores ${item.count === 1 ? 'it' : 'them'}, for ${durationText(item.oldestAgeMs)} so far. If the number does not fall, Postgres or the drain of the spool is failing: see the runbook “spool in use”.`,
      }
    case 'dead_entries':
      return {
        ...{ tone: 'bad', title: 'Dead letters in the spool', owner: 'all' },
        text: `${acceptedText(item.count)} could not be stored and ${item.count === 1 ? 'is' : 'are'} not retried. Follow the runbook “spool dead entries”.`,
      }
    case 'tenant_not_ready':
      return {
        ...{ tone: 'bad', title: 'Tenant not ready', owner: item.tenantId, tenantId: item.tenantId },
        text: `${reasonText(item.reason)}. The conditions on the tenant’s page say what to do.`,
      }
    case 'limit_near': {
      const { limit, used, hard, tenantId } = item
      const { label, window } = labelsOf(limit)
      return {
        ...{ tone: used >= hard ? 'bad' : 'warn', owner: tenantId, tenantId },
        title: used >= hard ? 'Limit reached' : 'Limit near',
        text: `${label}: ${amountText(limit, used)} of ${amountText(limit, hard)} ${window}.`,
      }
    }
  }
}

/** Renders what needs attention, or nothing if nothing does. */
export async function attentionCard(
  context: PageContext,
  { items, isCut }: AttentionList,
): Promise<ComponentChildren> {
  if (items.length === 0) return null
  const described = await withActions(
    context,
    items.map((item) => describe(context, item)),
  )
  return (
    <Card title="Needs attention" note={isCut ? 'the first of each kind' : undefined}>
      <ul class="attention">
        {described.map(({ tone, title, text, action, tenantId }) => (
          <li>
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
  )
}
