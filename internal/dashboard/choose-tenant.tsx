import type { Outcome, Page, TenantSummary } from '#internal/backoffice/index.ts'
import { Empty, PageHeader } from './components/block.tsx'
import { LinkButton } from './components/form.tsx'
import { Table } from './components/table.tsx'
import { forTenant, type PageContext, type Shown, shown } from './page.ts'

/** More than these are on the page of tenants, where they can be searched. */
const tenantsMax = 20

/** The page that stands for one that tells of one tenant while none is chosen: it leads there with each that the actor may see. */
export async function chooseTenant(context: PageContext): Promise<Shown> {
  const { backoffice, actor, whose } = context
  const listed = await backoffice.tenants.list(actor, { namespaces: whose.namespaces, limit: tenantsMax })
  return shown('Choose a tenant', <Choice context={context} listed={listed} />)
}

interface ChoiceParts {
  readonly context: PageContext
  readonly listed: Outcome<Page<TenantSummary>>
}

function Choice({ context: { here }, listed }: ChoiceParts) {
  const { items, next } = listed.kind === 'ok' ? listed.value : { items: [], next: undefined }
  return (
    <>
      <PageHeader
        title="Choose a tenant"
        lead="This page tells of one tenant. Choose it here, or type its slug or id at the left."
      >
        <LinkButton href="/tenants">All tenants</LinkButton>
      </PageHeader>
      <Table<TenantSummary>
        caption="Tenants to choose from"
        rows={items}
        keyOf={({ id }) => id}
        empty={<NoChoice listed={listed} />}
        columns={[
          {
            ...{ title: 'Tenant', isWide: true },
            cell: ({ id, displayName, name }) => <a href={forTenant(here, id)}>{displayName ?? name}</a>,
          },
          { title: 'Slug', cell: ({ slug }) => (slug === null ? '–' : <code>{slug}</code>) },
          { title: 'Name', cell: ({ namespace, name }) => `${namespace}/${name}` },
        ]}
      />
      {next !== undefined && (
        <p class="card-note">
          These are the first {tenantsMax}: <a href="/tenants">search all tenants</a>.
        </p>
      )}
    </>
  )
}

/** Somebody may see a tenant without the right to list those of its namespace. */
function NoChoice({ listed }: Pick<ChoiceParts, 'listed'>) {
  if (listed.kind === 'ok')
    return (
      <Empty icon="tenants" title="There is no tenant to choose from">
        Apply a Tenant resource: it shows up here within seconds.
      </Empty>
    )
  return listed.kind === 'unavailable' ? (
    <Empty icon="clock" title="Tenants cannot be listed at the moment" />
  ) : (
    <Empty icon="tenants" title="Tenants are listed by namespace">
      If your rights are for some namespaces only, name them under “Namespaces”.
    </Empty>
  )
}
