import type { Outcome, TenantDetail } from '#internal/backoffice/index.ts'
import type { UsageReport } from '#internal/usage/index.ts'
import { Card, Facts, Notice, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { Ago, Copy, durationText, StateBadge, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import type { Rights } from './rights.ts'
import { ApiKeys, Conditions, SigningSecrets, WebhookUrls } from './tenant-parts.tsx'
import { TenantBadge } from './tenants.tsx'
import { LimitBars, overText } from './usage-parts.tsx'

/** Everything about one tenant but what happened to it. */
export const tenantRow: PageRow = {
  ...{ method: 'GET', path: '/tenants/:tenant', section: 'tenants' },
  async show(context) {
    const { backoffice, actor, tenant, nowMs } = context
    if (tenant === undefined) return { kind: 'needsTenant' }
    const { id } = tenant
    const [detail, permissions, usage] = await Promise.all([
      backoffice.tenants.read(actor, id),
      backoffice.tenants.permissions(actor, id),
      backoffice.usage.read(actor, { tenantId: id, fromMs: nowMs - 1, toMs: nowMs }),
    ])
    if (detail.kind !== 'ok') return detail
    if (permissions.kind !== 'ok') return permissions
    const parts = { context, tenant: detail.value, may: permissions.value, usage }
    return shown(nameOf(detail.value), <TenantPage {...parts} />)
  },
}

interface TenantParts {
  readonly context: PageContext
  readonly tenant: TenantDetail
  readonly may: Rights
  readonly usage: Outcome<UsageReport>
}

/** What people call a tenant. */
export function nameOf({
  displayName,
  slug,
  name,
}: Pick<TenantDetail, 'displayName' | 'slug' | 'name'>): string {
  return displayName ?? slug ?? name
}

function TenantPage(parts: TenantParts) {
  const { tenant, context, usage } = parts
  const { id } = tenant
  return (
    <>
      <PageHeader
        title={nameOf(tenant)}
        badge={<TenantBadge tenant={tenant} />}
        crumbs={[{ label: 'Tenants', path: '/tenants' }]}
        lead={`${tenant.namespace}/${tenant.name}`}
      >
        <LinkButton href={link('/events', { tenant: id })}>Events</LinkButton>
        <LinkButton href={link('/refused', { tenant: id })}>Refused calls</LinkButton>
        <LinkButton href={link('/executions', { tenant: id })}>Executions</LinkButton>
        <LinkButton href={link('/audit', { tenant: id })}>Audit log</LinkButton>
      </PageHeader>
      <Standstill {...parts} />
      <Card title="About">
        <About tenant={tenant} nowMs={context.nowMs} />
      </Card>
      <WebhookUrls tenant={tenant} />
      <Callback {...parts} />
      <Conditions tenant={tenant} context={context} />
      <div class="columns">
        <ApiKeys tenant={tenant} nowMs={context.nowMs} />
        <SigningSecrets tenant={tenant} nowMs={context.nowMs} />
      </div>
      <Card
        title="Usage against limits"
        note={usage.kind === 'ok' ? overText(usage.value) : undefined}
        actions={<a href={link('/usage', { tenant: id })}>Usage and overrides</a>}
      >
        {usage.kind === 'ok' ? (
          <LimitBars report={usage.value} nowMs={context.nowMs} />
        ) : (
          <p class="muted">Usage cannot be read at the moment.</p>
        )}
      </Card>
    </>
  )
}

function Standstill({ tenant, may, context }: TenantParts) {
  const { suspendedCallback: stopped, breakerUntilMs, isSuspended, id } = tenant
  return (
    <>
      {isSuspended && (
        <Notice tone="warn" title="This tenant is suspended">
          Its calls are refused and its deliveries stand still until <code>spec.suspended</code> is false.
        </Notice>
      )}
      {stopped !== undefined && (
        <Notice tone="bad" title="Its callback is suspended">
          <p>
            {causeText(stopped.cause)}, <Ago atMs={stopped.sinceMs} nowMs={context.nowMs} />. Events are
            accepted and wait; no attempt is spent.
          </p>
          {may.replay && (
            <p>
              <a href={`/tenants/${id}/resume`}>Resume deliveries</a>
            </p>
          )}
        </Notice>
      )}
      {breakerUntilMs !== undefined && (
        <Notice tone="warn" title="Most deliveries failed just now">
          Nothing is tried until <Time atMs={breakerUntilMs} />. It goes on by itself, and costs no attempt.
        </Notice>
      )}
    </>
  )
}

function causeText(cause: string): string {
  if (cause === 'gone') return 'It answered 410 Gone'
  if (cause === 'disabled') return 'It answered with webhook-delivery: disable'
  return `It was suspended (${cause})`
}

function About({ tenant, nowMs }: { readonly tenant: TenantDetail; readonly nowMs: number }) {
  const { spec } = tenant
  const { payloadDays, eventDays } = spec.retention
  const days = (count: number | undefined) =>
    count === undefined ? 'as long as the platform says' : `${count} days`
  return (
    <Facts
      facts={[
        ['Id', <Copy text={tenant.id} label="Copy the id" />],
        ['Slug', tenant.slug === null ? `waits for ${spec.slug}` : <code>{tenant.slug}</code>],
        ['Created', <Ago atMs={tenant.createdAtMs} nowMs={nowMs} />],
        ['When deleted', spec.deletionPolicy === 'Retain' ? 'data is retained' : 'data is deleted'],
        ['Payloads are kept', days(payloadDays)],
        ['Events are kept', days(eventDays)],
        ['Wallet rollout', <StateBadge state={spec.walletRollout.stage} />],
        ['Saving a record', spec.records.requireLockToken ? 'needs the lock’s token' : 'needs no token'],
        spec.redaction.fields.length > 0
          ? ['Hidden beside the built-in fields', spec.redaction.fields.join(', ')]
          : undefined,
      ]}
    />
  )
}

function Callback({ tenant, may }: TenantParts) {
  const { callback } = tenant.spec
  const schedule = callback.retry.schedule
  return (
    <Card
      title="Callback"
      note="where its events go"
      actions={may.replay && <LinkButton href={`/tenants/${tenant.id}/test`}>Send a test event</LinkButton>}
    >
      <Facts
        facts={[
          ['URL', <Copy text={callback.url} label="Copy the callback’s URL" />],
          ['State', <StateBadge state={callbackState(tenant)} />],
          ['Given time', durationText(callback.timeoutSeconds * 1_000)],
          ['Attempts', `${schedule.length}, after ${schedule.join(', ')}`],
          ['Jitter', `± ${callback.retry.jitterPercent} %`],
          [
            'On redelivery of a failed event',
            callback.retryOnRedelivery ? 'one new delivery cycle' : 'nothing',
          ],
          callback.allowedCIDRs.length > 0
            ? ['Networks it may lie in', callback.allowedCIDRs.join(', ')]
            : undefined,
        ]}
      />
    </Card>
  )
}

function callbackState({ suspendedCallback, breakerUntilMs, isSuspended }: TenantDetail): string {
  if (isSuspended) return 'suspended with its tenant'
  if (suspendedCallback !== undefined) return 'suspended'
  return breakerUntilMs === undefined ? 'in use' : 'resting'
}
