import type { TenantDetail, TenantKeyView, TenantSecretView } from '#internal/backoffice/index.ts'
import type { Condition, WebhookUrl } from '#internal/tenants/index.ts'
import { Card, Empty } from '../components/block.tsx'
import { Table } from '../components/table.tsx'
import { Ago, Badge, Copy, StateBadge } from '../components/text.tsx'
import type { PageContext } from '../page.ts'

type WalletStage = TenantDetail['spec']['walletRollout']['stage']

/** The URLs to hand to a tenant's providers. */
export function WebhookUrls({ tenant: { urls, slug, spec } }: { readonly tenant: TenantDetail }) {
  const { stage } = spec.walletRollout
  const off = spec.providers.filter(({ enabled }) => !enabled).map(({ name }) => name)
  const arePaths = urls.some(({ url }) => url.startsWith('/'))
  return (
    <Card title="Webhook URLs" note="to enter at each provider">
      <Table<WebhookUrl>
        caption="Webhook URLs"
        rows={urls}
        keyOf={({ provider }) => provider}
        empty={
          <Empty
            icon="events"
            title={slug === null ? 'There is no URL without a slug' : 'No provider may call'}
          >
            {slug === null
              ? `Another tenant holds “${spec.slug}”. Its URLs would be this one’s as well.`
              : 'Name providers under spec.providers.'}
          </Empty>
        }
        columns={[
          { title: 'Provider', cell: ({ provider }) => <Provider name={provider} stage={stage} /> },
          {
            ...{ title: 'URL', isWide: true },
            cell: ({ provider, url }) => <Copy text={url} label={`Copy the URL for ${provider}`} />,
          },
        ]}
      />
      {arePaths && (
        <p class="card-note">
          Put the address of the public API before these paths: it is not configured here (
          <code>LATCHKEY_PUBLIC_URL</code>).
        </p>
      )}
      {stage !== 'enabled' && urls.some(({ provider }) => provider === rolledOut) && (
        <p class="card-note">
          {stage === 'off'
            ? 'Calls of the wallet are refused'
            : 'Events of the wallet are verified and kept, not delivered'}{' '}
          until <code>spec.walletRollout.stage</code> says otherwise.
        </p>
      )}
      {off.length > 0 && <p class="card-note">Turned off by the tenant: {off.join(', ')}.</p>}
    </Card>
  )
}

/** The one provider that is let in step by step. */
const rolledOut = 'wallet'

function Provider({ name, stage }: { readonly name: string; readonly stage: WalletStage }) {
  if (name !== rolledOut || stage === 'enabled') return name
  return (
    <>
      {name} <Badge tone="quiet">{stage === 'off' ? 'off' : 'verify only'}</Badge>
    </>
  )
}

/** What the operator found, and what cannot be known here. */
export function Conditions({
  tenant,
  context: { actor, nowMs },
}: {
  readonly tenant: TenantDetail
  readonly context: Pick<PageContext, 'actor' | 'nowMs'>
}) {
  return (
    <Card title="Conditions" note="as they were stored at the last reconcile">
      <Table<Condition>
        caption="Conditions"
        rows={tenant.conditions}
        keyOf={({ type }) => type}
        empty={
          <Empty icon="clock" title="Nobody has looked at it yet">
            The operator writes conditions when it reconciles the tenant for the first time.
          </Empty>
        }
        columns={[
          { title: 'Condition', cell: ({ type }) => type },
          { title: 'Status', cell: (condition) => <ConditionBadge condition={condition} /> },
          { title: 'Reason', cell: ({ reason }) => <code>{reason}</code> },
          { title: 'Message', isWide: true, cell: ({ message }) => <span class="wraps">{message}</span> },
          {
            title: 'Since',
            cell: ({ lastTransitionTime }) => <SinceText time={lastTransitionTime} nowMs={nowMs} />,
          },
        ]}
      />
      <p class="card-note">
        {actor.kind === 'devAdmin' ? (
          'This tenant comes from a folder of manifests: outside a cluster there are no Secrets, events or admission to ask about.'
        ) : (
          <>
            Newer changes of the resource, its Kubernetes events and its Secrets are known to the cluster
            alone: <code>{`kubectl describe tenant ${tenant.name} -n ${tenant.namespace}`}</code>
          </>
        )}
      </p>
    </Card>
  )
}

/** A wallet that is not rolled out is a choice, no fault. */
function ConditionBadge({ condition: { type, status } }: { readonly condition: Condition }) {
  return type === 'WalletEnabled' && status === 'False' ? (
    <Badge tone="quiet">False</Badge>
  ) : (
    <StateBadge state={status} />
  )
}

function SinceText({ time, nowMs }: { readonly time: string; readonly nowMs: number }) {
  const atMs = Date.parse(time)
  return Number.isNaN(atMs) ? '–' : <Ago atMs={atMs} nowMs={nowMs} />
}

interface Dated {
  readonly tenant: TenantDetail
  readonly nowMs: number
}

/** A tenant's API keys, without the keys. */
export function ApiKeys({ tenant: { keys }, nowMs }: Dated) {
  return (
    <Card title="API keys" note="never shown: only how they begin is kept">
      <Table<TenantKeyView>
        caption="API keys"
        rows={keys}
        keyOf={({ name, createdAtMs }) => `${name} ${createdAtMs}`}
        empty={
          <Empty icon="lock" title="No API key">
            Name one under spec.apiKeys.
          </Empty>
        }
        columns={[
          { title: 'Name', cell: ({ name }) => name },
          { title: 'Begins', cell: ({ prefix }) => (prefix === null ? '–' : <code>{prefix}…</code>) },
          { title: 'Scopes', cell: ({ scopes }) => <span class="wraps">{scopes.join(', ')}</span> },
          { title: 'Issued', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
          { title: 'Ends', cell: (key) => <KeyEnd apiKey={key} nowMs={nowMs} /> },
        ]}
      />
    </Card>
  )
}

function KeyEnd({ apiKey: { endsAtMs }, nowMs }: { readonly apiKey: TenantKeyView; readonly nowMs: number }) {
  if (endsAtMs === null) return <span class="muted">never</span>
  const isOver = endsAtMs <= nowMs
  return (
    <Badge tone={isOver ? 'bad' : 'warn'}>
      <Ago atMs={endsAtMs} nowMs={nowMs} />
    </Badge>
  )
}

/** A tenant's signing secrets: where they came from and since when, never what they are. */
export function SigningSecrets({ tenant: { secrets }, nowMs }: Dated) {
  return (
    <Card title="Signing secrets" note="values are never shown">
      <Table<TenantSecretView & { readonly nth: number }>
        caption="Signing secrets"
        rows={secrets.map((secret, nth) => ({ ...secret, nth }))}
        keyOf={({ nth }) => nth}
        empty={
          <Empty icon="lock" title="No signing secret is in force">
            See the condition SecretsSynced.
          </Empty>
        }
        columns={[
          { title: 'Of', cell: ({ field }) => ownerOf(field) },
          { title: 'Secret', cell: ({ secretName }) => <code>{secretName}</code> },
          { title: 'In force since', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
        ]}
      />
    </Card>
  )
}

function ownerOf(field: string): string {
  return field === 'callback' ? 'Callback' : `Provider ${field.replace(/^provider:/, '')}`
}
