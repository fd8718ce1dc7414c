import type { Outcome, Page, TenantSummary } from '#internal/backoffice/index.ts'
import { Empty, PageHeader } from '../components/block.tsx'
import { FilterForm } from '../components/form.tsx'
import { Pager, Table } from '../components/table.tsx'
import { Ago, Badge, Copy } from '../components/text.tsx'
import { goTo, link, type PageContext, type PageRow, shown } from '../page.ts'
import { refOf } from '../serve-row.tsx'

/** How much of an API key names it; the rest of one is not to stand in an address. */
const keyPrefixChars = 11

/** All tenants that the actor may see, and the search for one. */
export const tenantsRow: PageRow = {
  ...{ method: 'GET', path: '/tenants', section: 'tenants' },
  async show(context) {
    const { search } = context.query
    if (search?.startsWith('lk_') === true && search.length > keyPrefixChars)
      return goTo(
        link('/tenants', { search: search.slice(0, keyPrefixChars) }),
        'The key was cut to its first 11 characters, which are enough to find its tenant.',
        'info',
      )
    const found = await findTenants(context, search)
    if (found.kind === 'conflict' || found.kind === 'invalid')
      return showTenants(context, none, found.problem)
    if (found.kind !== 'ok') return found
    return showTenants(context, found.value)
  },
}

const none: Page<TenantSummary> = { items: [], next: undefined }

/** What begins as an id or a key does is looked up; all else is searched for in names. */
async function findTenants(
  { backoffice, actor, whose: { namespaces }, query: { after } }: PageContext,
  search: string | undefined,
): Promise<Outcome<Page<TenantSummary>>> {
  if (search === undefined || !/^(ten|lk)_/.test(search))
    return await backoffice.tenants.list(actor, { search, namespaces, after })
  const found = await backoffice.tenants.find(actor, refOf(search))
  if (found.kind === 'notFound') return { kind: 'ok', value: none }
  return found.kind === 'ok' ? { kind: 'ok', value: { items: [found.value], next: undefined } } : found
}

function showTenants(context: PageContext, page: Page<TenantSummary>, problem?: string) {
  const { query, nowMs, whose } = context
  const { search } = query
  return shown(
    'Tenants',
    <>
      <PageHeader
        title="Tenants"
        lead={
          whose.namespaces === undefined
            ? 'Who receives webhooks and keeps records here.'
            : `Tenants in ${whose.namespaces.join(', ')}.`
        }
      />
      <FilterForm
        path="/tenants"
        isActive={search !== undefined}
        fields={[
          {
            ...{ kind: 'text', name: 'search', label: 'Search', value: search, charsMax: 100, problem },
            placeholder: 'Slug, name, id, or lk_… of a key',
          },
        ]}
      />
      <Table<TenantSummary>
        caption="Tenants"
        rows={page.items}
        keyOf={({ id }) => id}
        empty={<NoTenants search={search} next={page.next} />}
        columns={[
          { title: 'Tenant', isWide: true, cell: (tenant) => <TenantName tenant={tenant} /> },
          { title: 'Slug', cell: ({ slug }) => (slug === null ? <NoSlug /> : <code>{slug}</code>) },
          { title: 'State', cell: (tenant) => <TenantBadge tenant={tenant} /> },
          { title: 'Created', cell: ({ createdAtMs }) => <Ago atMs={createdAtMs} nowMs={nowMs} /> },
          { title: 'Id', cell: ({ id }) => <Copy text={id} label="Copy the id" /> },
        ]}
      />
      <Pager path="/tenants" query={query} next={page.next} shown={page.items.length} noun="tenants" />
    </>,
  )
}

function TenantName({ tenant: { id, displayName, namespace, name } }: { readonly tenant: TenantSummary }) {
  return (
    <span class="stacked">
      <a href={`/tenants/${id}`}>{displayName ?? name}</a>
      <span class="muted">
        {namespace}/{name}
      </span>
    </span>
  )
}

function NoSlug() {
  return <span class="muted">waits for it</span>
}

/** How a tenant is, in one word. */
export function TenantBadge({ tenant }: { readonly tenant: TenantSummary }) {
  if (tenant.isSuspended) return <Badge tone="warn">Suspended</Badge>
  return tenant.isReady ? <Badge tone="good">Ready</Badge> : <Badge tone="bad">{tenant.reason}</Badge>
}

function NoTenants({
  search,
  next,
}: {
  readonly search: string | undefined
  readonly next: string | undefined
}) {
  if (next !== undefined)
    return (
      <Empty icon="search" title="None among the first 5,000 tenants">
        The search goes on with “Older”; a longer part of the name finds it sooner.
      </Empty>
    )
  if (search !== undefined)
    return (
      <Empty icon="search" title={`No tenant is called “${search}”`}>
        It is looked for in slugs, names and display names; ids and the beginnings of API keys have to be
        exact. Tenants that you may not see are not found.
      </Empty>
    )
  return (
    <Empty icon="tenants" title="There is no tenant yet">
      Apply a Tenant resource: it shows up here within seconds.
    </Empty>
  )
}
