import type { Blocker, Outcome, TenantDetail } from '#internal/backoffice/index.ts'
import {
  type Condition,
  notificationFormats,
  providerAcceptance,
  type WebhookUrl,
} from '#internal/tenants/index.ts'
import type { LimitsReport } from '#internal/usage/index.ts'
import { Card, Empty, Facts, Live, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { Table } from '../components/list.tsx'
import { Ago, Badge, Copy, durationText, StateBadge } from '../components/text.tsx'
import {
  blockersByTenant,
  link,
  nameOf,
  type PageContext,
  type PageRow,
  type Rights,
  shown,
} from '../page.ts'
import { TenantBadges } from './tenants.tsx'
import { LimitBars, overText } from './usage.tsx'

export const tenantRow: PageRow = {
  method: 'GET',
  path: '/tenants/:tenant',
  section: 'tenants',
  async show(context) {
    const { backoffice, actor, tenant } = context
    if (tenant === undefined) return { kind: 'needsTenant' }
    const { id } = tenant
    const [detail, permissions, usage, blockers] = await Promise.all([
      backoffice.tenants.read(actor, id),
      backoffice.tenants.permissions(actor, id),
      backoffice.usage.limits(actor, id),
      blockersByTenant(context, [id]),
    ])
    if (detail.kind !== 'ok') return detail
    if (permissions.kind !== 'ok') return permissions
    const parts = { context, tenant: detail.value, may: permissions.value, blockers: blockers.get(id) ?? [] }
    return shown(nameOf(detail.value), <TenantPage {...parts} usage={usage} />)
  },
}

interface TenantParts {
  readonly context: PageContext
  readonly tenant: TenantDetail
  readonly may: Rights
  readonly blockers: readonly Blocker[]
}

function TenantPage({ usage, ...parts }: TenantParts & { readonly usage: Outcome<LimitsReport> }) {
  const { tenant, context } = parts
  const { id } = tenant
  return (
    <Live id="tenant" here={context.here} every="status">
      <PageHeader
        title={nameOf(tenant)}
        badge={<TenantBadges {...parts} />}
        crumbs={[{ label: 'Tenants', path: '/tenants' }]}
        lead={`${tenant.namespace}/${tenant.name}`}
      >
        <LinkButton href={link('/events', { tenant: id })}>Events</LinkButton>
        <LinkButton href={link('/refused', { tenant: id })}>Refused calls</LinkButton>
        <LinkButton href={link('/executions', { tenant: id })}>Lock history</LinkButton>
        <LinkButton href={link('/audit', { tenant: id })}>Audit log</LinkButton>
      </PageHeader>
      <Details {...parts} />
      <WebhookUrls tenant={tenant} />
      <Callback {...parts} />
      <Notifications {...parts} />
      <Conditions {...parts} />
      <div class="columns">
        <ApiKeys {...parts} />
        <SigningSecrets {...parts} />
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
    </Live>
  )
}

function Details({ tenant, context: { nowMs } }: TenantParts) {
  const { spec } = tenant
  const { payloadDays, eventDays } = spec.retention
  const days = (count: number | undefined) => (count === undefined ? 'platform default' : `${count} days`)
  const fields = spec.redaction.fields
  return (
    <Card title="Details">
      <Facts
        facts={[
          ['Id', <Copy text={tenant.id} label="Copy the id" />],
          [
            'Slug',
            tenant.slug === null ? `${spec.slug} is taken by another tenant` : <code>{tenant.slug}</code>,
          ],
          ['Created', <Ago atMs={tenant.createdAtMs} nowMs={nowMs} />],
          ['After deletion', spec.deletionPolicy === 'Retain' ? 'data is retained' : 'data is deleted'],
          ['Payload retention', days(payloadDays)],
          ['Event retention', days(eventDays)],
          ['Wallet rollout', <StateBadge state={spec.walletRollout.stage} />],
          ['Records are kept in', storeText(tenant)],
          ['Saving a record', spec.records.requireLockToken ? 'requires the lock token' : 'needs no token'],
          ['Additional redacted fields', fields.length > 0 ? fields.join(', ') : undefined],
        ]}
      />
    </Card>
  )
}

function storeText({ recordStore, earlierRecordStore }: TenantParts['tenant']): string {
  const names = { redis: 'Redis', postgres: 'Postgres' }
  return earlierRecordStore
    ? `${names[recordStore]}, earlier ones in ${names[earlierRecordStore]} until they end`
    : names[recordStore]
}

/** Returns texts for a provider whose rollout stage prevents the delivery of its events; undefined for any other provider. */
function rolloutTexts({ providers, walletRollout }: TenantParts['tenant']['spec'], provider: string) {
  const acceptance = providerAcceptance({
    provider,
    entry: providers.find(({ name }) => name === provider),
    walletStage: walletRollout.stage,
  })
  if (acceptance.kind === 'accept')
    return acceptance.state === 'verified'
      ? { badge: 'Verify only', note: 'Wallet events are verified and stored, but not delivered' }
      : undefined
  return acceptance.cause === 'stage_off' ? { badge: 'Off', note: 'Wallet calls are refused' } : undefined
}

function WebhookUrls({ tenant: { urls, slug, spec } }: Pick<TenantParts, 'tenant'>) {
  const textsOf = new Map(urls.map(({ provider }) => [provider, rolloutTexts(spec, provider)]))
  const note = [...textsOf.values()].find((texts) => texts !== undefined)?.note
  const off = spec.providers.filter(({ enabled }) => !enabled).map(({ name }) => name)
  const empty = (
    <Empty icon="events" title={slug === null ? 'No URLs without a slug' : 'No providers configured'}>
      {slug === null
        ? `Another tenant holds the slug “${spec.slug}”.`
        : 'Add providers under spec.providers.'}
    </Empty>
  )
  return (
    <Card title="Webhook URLs" note="register each with its provider">
      <Table<WebhookUrl>
        caption="Webhook URLs"
        rows={urls}
        empty={empty}
        columns={[
          {
            title: 'Provider',
            cell: ({ provider }) => {
              const texts = textsOf.get(provider)
              if (texts === undefined) return provider
              return (
                <>
                  {provider} <Badge tone="quiet">{texts.badge}</Badge>
                </>
              )
            },
          },
          {
            title: 'URL',
            isWide: true,
            cell: ({ provider, url }) => <Copy text={url} label={`Copy the URL for ${provider}`} />,
          },
        ]}
      />
      {urls.some(({ url }) => url.startsWith('/')) && (
        <p class="card-note">
          Prefix these paths with the address of the public API, which is not configured here (
          <code>LATCHKEY_PUBLIC_URL</code>).
        </p>
      )}
      {note !== undefined && (
        <p class="card-note">
          {note} until <code>spec.walletRollout.stage</code> is changed.
        </p>
      )}
      {off.length > 0 && <p class="card-note">Disabled in the spec: {off.join(', ')}.</p>}
    </Card>
  )
}

function Callback({ tenant, may, blockers }: TenantParts) {
  const { callback } = tenant.spec
  if (callback === undefined)
    return (
      <Card title="Callback" note="none">
        <Empty icon="events" title="Events are pulled">
          An event waits until a subscription acknowledges it. Set <code>spec.callback</code> to have events
          delivered.
        </Empty>
      </Card>
    )
  const { schedule, jitterPercent } = callback.retry
  return (
    <Card
      title="Callback"
      note="receives the tenant’s events"
      actions={may.replay && <LinkButton href={`/tenants/${tenant.id}/test`}>Send a test event</LinkButton>}
    >
      <Facts
        facts={[
          ['URL', <Copy text={callback.url} label="Copy the callback’s URL" />],
          ['State', <StateBadge state={callbackState(blockers)} />],
          ['Timeout', durationText(callback.timeoutSeconds * 1_000)],
          ['Attempts', `${schedule.length}, after ${schedule.join(', ')}`],
          ['Jitter', `± ${jitterPercent} %`],
          [
            'On redelivery of a failed event',
            callback.retryOnRedelivery ? 'one new delivery cycle' : 'no new delivery',
          ],
          [
            'Additional allowed networks',
            callback.allowedCIDRs.length > 0 ? callback.allowedCIDRs.join(', ') : undefined,
          ],
        ]}
      />
    </Card>
  )
}

function Notifications({ tenant, may, blockers, context: { nowMs } }: TenantParts) {
  const { notifications: spec } = tenant.spec
  const { notifications } = tenant
  if (spec === undefined || notifications === undefined) return null
  const { last } = notifications
  const { title, isSigned } = notificationFormats[spec.format]
  return (
    <Card
      title="Notifications"
      note="about the tenant’s operation, to its owner"
      actions={
        may.replay &&
        (notifications.state === 'suspended' ? (
          <LinkButton href={`/tenants/${tenant.id}/resume`}>Resume deliveries</LinkButton>
        ) : (
          <LinkButton href={`/tenants/${tenant.id}/notifications/test`}>Send a test notification</LinkButton>
        ))
      }
    >
      <Facts
        facts={[
          ['Destination', spec.url ?? `a URL in Secret ${spec.urlSecretRef?.name ?? ''}`],
          [
            'State',
            <StateBadge state={notificationsState(tenant.suspended, blockers) ?? notifications.state} />,
          ],
          ['Format', `${title}, ${isSigned ? 'signed' : 'unsigned'}`],
          ['Types', spec.events?.join(', ') ?? 'all'],
          [
            'Last notification',
            last === null ? (
              'none'
            ) : (
              <>
                <a href={`/events/${last.id}`}>{last.type}</a> <StateBadge state={last.state} />{' '}
                <Ago atMs={last.receivedAtMs} nowMs={nowMs} />
              </>
            ),
          ],
        ]}
      />
    </Card>
  )
}

/** Returns what blocks notifications apart from their own state. A pause of one tenant does not block them. */
function notificationsState(isSuspended: boolean, blockers: readonly Blocker[]): string | undefined {
  if (isSuspended) return 'tenant_suspended'
  return blockers.some((blocker) => blocker.kind === 'forwarding_paused' && blocker.tenantId === null)
    ? 'paused'
    : undefined
}

/** Returns the state of the callback, by the first blocker in the order in which explanations name them. */
function callbackState(blockers: readonly Blocker[]): string {
  const found = new Map(blockers.map((blocker) => [blocker.kind, blocker]))
  if (found.has('tenant_suspended')) return 'tenant_suspended'
  if (found.has('forwarding_paused')) return 'paused'
  if (found.has('callback_suspended')) return 'suspended'
  const trouble = found.get('callback_resumed') ?? found.get('callback_failing')
  if (trouble === undefined || !('breaker' in trouble)) return 'active'
  if (trouble.breaker !== 'closed') return `breaker_${trouble.breaker}`
  return 'failing'
}

function Conditions({ tenant, context: { actor, nowMs } }: TenantParts) {
  return (
    <Card title="Conditions" note="as of the last reconcile">
      <Table<Condition>
        caption="Conditions"
        rows={tenant.conditions}
        empty={
          <Empty icon="clock" title="Not reconciled yet">
            The operator writes conditions at the first reconcile.
          </Empty>
        }
        columns={[
          { title: 'Condition', cell: ({ type }) => type },
          { title: 'Status', cell: conditionBadge },
          { title: 'Reason', cell: ({ reason }) => <code>{reason}</code> },
          { title: 'Message', isWide: true, cell: ({ message }) => <span class="wraps">{message}</span> },
          {
            title: 'Since',
            cell({ lastTransitionTime }) {
              const atMs = Date.parse(lastTransitionTime)
              return Number.isNaN(atMs) ? '–' : <Ago atMs={atMs} nowMs={nowMs} />
            },
          },
        ]}
      />
      <p class="card-note">
        {actor.kind === 'operator' ? (
          'This tenant comes from a folder of manifests: outside a cluster there are no Secrets, events or admission to query.'
        ) : (
          <>
            For newer changes of the resource, its events and its Secrets run{' '}
            <code>{`kubectl describe tenant ${tenant.name} -n ${tenant.namespace}`}</code>
          </>
        )}
      </p>
    </Card>
  )
}

/** `WalletEnabled: False` is a configured choice, so it is not shown as a failure. */
function conditionBadge({ type, status }: Condition) {
  return type === 'WalletEnabled' && status === 'False' ? (
    <Badge tone="quiet">False</Badge>
  ) : (
    <StateBadge state={status} />
  )
}

function ApiKeys({ tenant: { keys }, context: { nowMs } }: TenantParts) {
  const endOf = ({ expiresAtMs }: TenantDetail['keys'][number]) =>
    expiresAtMs === null ? (
      <span class="muted">never</span>
    ) : (
      <Badge tone={expiresAtMs <= nowMs ? 'bad' : 'warn'}>
        <Ago atMs={expiresAtMs} nowMs={nowMs} />
      </Badge>
    )
  return (
    <Card title="API keys" note="only their prefixes are stored">
      <Table<TenantDetail['keys'][number]>
        caption="API keys"
        rows={keys}
        empty={
          <Empty icon="lock" title="No API key">
            Add one under spec.apiKeys.
          </Empty>
        }
        columns={[
          { title: 'Name', cell: ({ name }) => name },
          { title: 'Prefix', cell: ({ prefix }) => <code>{prefix}…</code> },
          { title: 'Scopes', cell: ({ scopes }) => <span class="wraps">{scopes.join(', ')}</span> },
          { title: 'Issued', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
          { title: 'Expires', cell: endOf },
        ]}
      />
    </Card>
  )
}

const fieldNames: Readonly<Record<string, string>> = {
  callback: 'Callback',
  notifications: 'Notifications',
  'notifications:url': 'URL of notifications',
}

function SigningSecrets({ tenant: { secrets }, context: { nowMs } }: TenantParts) {
  const ownerOf = ({ field }: TenantDetail['secrets'][number]) =>
    fieldNames[field] ?? `Provider ${field.replace(/^provider:/, '')}`
  return (
    <Card title="Signing secrets" note="values are never shown">
      <Table<TenantDetail['secrets'][number]>
        caption="Signing secrets"
        rows={secrets}
        empty={
          <Empty icon="lock" title="No current signing secret">
            See the condition SecretsSynced.
          </Empty>
        }
        columns={[
          { title: 'Used by', cell: ownerOf },
          { title: 'Secret', cell: ({ secretName }) => <code>{secretName}</code> },
          { title: 'Used since', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
        ]}
      />
    </Card>
  )
}
