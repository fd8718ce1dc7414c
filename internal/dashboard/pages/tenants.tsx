import {
  type Blocker,
  blockerState,
  type Outcome,
  type Page,
  type TenantSummary,
  tenantsExaminedMax,
} from '#internal/backoffice/index.ts'
import { keyPrefixChars } from '#internal/tenants/index.ts'
import { Empty, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { type Column, listRow, Table } from '../components/list.tsx'
import { Ago, Badge, Copy, countText } from '../components/text.tsx'
import {
  forTenant,
  goTo,
  link,
  type PageContext,
  type PageRow,
  refOf,
  type Shown,
  shown,
  withBlockers,
} from '../page.ts'

const list = listRow({
  path: '/tenants',
  section: 'tenants',
  title: 'Tenants',
  noun: 'tenants',
  hidesTenant: true,
  lead: ({ selection: { namespaces } }) =>
    namespaces === undefined
      ? 'Customers that receive webhooks and keep records here.'
      : `Tenants in ${namespaces.join(', ')}.`,
  fields: [
    {
      kind: 'text',
      name: 'search',
      label: 'Search',
      charsMax: 100,
      placeholder: 'Slug, name, id, or lk_… of a key',
    },
  ],
  async load(context, asked) {
    const found = await findTenants(context, asked)
    if (found.kind !== 'ok')
      return found.kind === 'conflict' ? { kind: 'invalid', problem: found.problem } : found
    const { items, next } = found.value
    return { kind: 'ok', value: { next, items: await withBlockers(context, items, ({ id }) => id) } }
  },
  columns: ({ nowMs }) => [
    { title: 'Tenant', isWide: true, cell: nameText },
    { title: 'Slug', cell: slugText },
    {
      title: 'State',
      cell: (tenant) => <TenantState tenant={tenant} nowMs={nowMs} blockers={tenant.blockers} />,
    },
    { title: 'Created', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
    { title: 'Id', cell: ({ id }) => <Copy text={id} label="Copy the id" /> },
  ],
  rowId: ({ id }) => id,
  live: () => 'status',
  examined: () => `the ${countText(tenantsExaminedMax)} tenants that one search examines`,
  empty: {
    icon: 'tenants',
    title: 'No tenants yet',
    text: 'Apply a Tenant resource: it appears here within seconds.',
  },
  noMatch: () =>
    'The search covers slugs, names and display names; ids and API key prefixes must match exactly. Only tenants that you may see are found.',
})

/** Truncates an API key in the search to its prefix, since an address must not contain more of a key. */
const tenantsRow: PageRow = {
  ...list,
  show(context) {
    const { search } = context.query
    if (search?.startsWith('lk_') !== true || search.length <= keyPrefixChars) return list.show(context)
    const path = link('/tenants', { search: search.slice(0, keyPrefixChars) })
    const text = `The key was shortened to its first ${keyPrefixChars} characters, which identify its tenant.`
    return goTo(path, text, 'info')
  },
}

/** Finds tenants by id or key prefix. Any other text is searched in names. */
async function findTenants(
  { backoffice, actor, selection: { namespaces }, query: { search } }: PageContext,
  { after }: { readonly after?: string | undefined },
): Promise<Outcome<Page<TenantSummary>>> {
  if (search === undefined || !/^(ten|lk)_/.test(search))
    return await backoffice.tenants.list(actor, { search, namespaces, after })
  const found = await backoffice.tenants.find(actor, refOf(search))
  if (found.kind === 'notFound') return { kind: 'ok', value: { items: [], next: undefined } }
  return found.kind === 'ok' ? { kind: 'ok', value: { items: [found.value], next: undefined } } : found
}

function nameText({ id, displayName, namespace, name }: TenantSummary) {
  return (
    <span class="stacked">
      <a href={`/tenants/${id}`}>{displayName ?? name}</a>
      <span class="muted">
        {namespace}/{name}
      </span>
    </span>
  )
}

function slugText({ slug }: TenantSummary) {
  return slug === null ? <span class="muted">taken by another tenant</span> : <code>{slug}</code>
}

/** Formats `CallbackSuspended` as `Callback suspended`. */
export function reasonText(reason: string | null): string {
  const words = (reason ?? 'Unknown').replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return words.replaceAll(/\b(api|url|cidr)\b/gi, (word) => word.toUpperCase())
}

interface BlockedTenantParts {
  readonly tenant: TenantSummary
  /** Blockers of the tenant, including pauses of all tenants. */
  readonly blockers: readonly Blocker[]
}

/** Renders a badge for each problem and blocker of a tenant, or “Ready” if there is none. */
export function TenantBadges({ tenant: { suspended, isReady, reason }, blockers }: BlockedTenantParts) {
  if (suspended) return <Badge tone="warn">Suspended</Badge>
  const badges = [...new Map(blockers.map((blocker) => [badgeOf(blocker), blockerState(blocker).severity]))]
  const isListed = blockers.some(({ kind }) => kind === 'callback_suspended')
  const isOther = !isReady && !(isListed && reason === 'CallbackSuspended')
  if (!isOther && badges.length === 0) return <Badge tone="good">Ready</Badge>
  return (
    <>
      {isOther && <Badge tone="bad">{reasonText(reason)}</Badge>}
      {badges.map(([text, tone]) => (
        <>
          {' '}
          <Badge tone={tone}>{text}</Badge>
        </>
      ))}
    </>
  )
}

const badgeOf = (blocker: Blocker) => blockerState(blocker).badge

function TenantState({ tenant, blockers, nowMs }: BlockedTenantParts & { readonly nowMs: number }) {
  const blocker = blockers.find((each) => 'by' in each) ?? blockers[0]
  const startedAtMs = blocker && 'startedAtMs' in blocker ? blocker.startedAtMs : undefined
  return (
    <span class="stacked">
      <span>
        <TenantBadges tenant={tenant} blockers={blockers} />
      </span>
      {startedAtMs !== undefined && (
        <span class="muted unless-narrow">
          {blocker && 'by' in blocker && `by ${blocker.by}, `}
          <Ago atMs={startedAtMs} nowMs={nowMs} />
        </span>
      )}
    </span>
  )
}

/** Redirects to the current page for the typed tenant, or to a search for the text if no such tenant is found. */
const goRow: PageRow = {
  method: 'GET',
  path: '/go',
  section: 'tenants',
  async show({ backoffice, actor, query }) {
    const { find, to: path = '/' } = query
    if (find === undefined) return goTo(path)
    const found = await backoffice.tenants.find(actor, refOf(find))
    if (found.kind === 'notFound' || found.kind === 'invalid') return goTo(link('/tenants', { search: find }))
    if (found.kind !== 'ok') return found
    const { id } = found.value
    return goTo(/^\/tenants([/?]|$)/.test(path) ? `/tenants/${id}` : forTenant(path, id))
  },
}

export const tenantListRows = [tenantsRow, goRow] as const

/** Maximum number of tenants that a page offers to choose from. The tenant list can be searched for others. */
const choicesMax = 20

export async function chooseTenant(context: PageContext): Promise<Shown> {
  const { backoffice, actor, selection } = context
  const listed = await backoffice.tenants.list(actor, { namespaces: selection.namespaces, limit: choicesMax })
  const { items, next } = listed.kind === 'ok' ? listed.value : { items: [], next: undefined }
  const columns: readonly Column<TenantSummary>[] = [
    {
      title: 'Tenant',
      isWide: true,
      cell: ({ id, displayName, name }) => <a href={forTenant(context.here, id)}>{displayName ?? name}</a>,
    },
    { title: 'Slug', cell: ({ slug }) => (slug === null ? '–' : <code>{slug}</code>) },
    { title: 'Name', cell: ({ namespace, name }) => `${namespace}/${name}` },
  ]
  const lead = 'Select a tenant to continue, or type its slug or id in the sidebar.'
  return shown(
    'Choose a tenant',
    <>
      <PageHeader title="Choose a tenant" lead={lead}>
        <LinkButton href="/tenants">All tenants</LinkButton>
      </PageHeader>
      <Table<TenantSummary>
        caption="Tenants to choose from"
        rows={items}
        columns={columns}
        empty={<NoChoice listed={listed} />}
      />
      {next !== undefined && (
        <p class="card-note">
          These are the first {choicesMax}: <a href="/tenants">search all tenants</a>.
        </p>
      )}
    </>,
  )
}

/** Explains why no tenant is offered. A user can see single tenants without the right to list the tenants of their namespace. */
function NoChoice({ listed }: { readonly listed: Outcome<unknown> }) {
  if (listed.kind === 'ok')
    return (
      <Empty icon="tenants" title="There is no tenant to choose from">
        Apply a Tenant resource: it appears here within seconds.
      </Empty>
    )
  return listed.kind === 'unavailable' ? (
    <Empty icon="clock" title="Tenants cannot be listed at the moment" />
  ) : (
    <Empty icon="tenants" title="Tenants are listed by namespace">
      If your roles are bound in some namespaces only, enter them under “Namespaces”.
    </Empty>
  )
}
