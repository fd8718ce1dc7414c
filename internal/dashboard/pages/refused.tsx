import type { Page, RefusedCall } from '#internal/backoffice/index.ts'
import { refusalCauses, refusedCauses } from '#internal/intake/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import { Empty, Facts, PageHeader } from '../components/block.tsx'
import { FilterForm, LinkButton } from '../components/form.tsx'
import { JsonBlock } from '../components/json-block.tsx'
import { Pager } from '../components/table.tsx'
import { Badge, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { refusedAdviceOf } from './refused-causes.ts'
import { tenantFields } from './tenant-field.ts'

/** Calls that were refused to a tenant: why, and what to do about it. */
export const refusedRow: PageRow = {
  ...{ method: 'GET', path: '/refused', section: 'refused' },
  async show(context) {
    const { backoffice, actor, tenant, query } = context
    if (tenant === undefined) return { kind: 'needsTenant' }
    const { provider, cause, after } = query
    const listed = await backoffice.refused.list(actor, {
      ...{ tenantId: tenant.id, provider, cause, after },
      limit: pageItems,
    })
    if (listed.kind !== 'ok') return listed
    return shown('Refused calls', <Refused context={context} page={listed.value} />)
  },
}

/** Each has its headers and the start of its body in the page. */
const pageItems = 25

interface RefusedParts {
  readonly context: PageContext
  readonly page: Page<RefusedCall>
}

function Refused({ context, page: { items, next } }: RefusedParts) {
  const { query, tenant } = context
  return (
    <>
      <PageHeader
        title="Refused calls"
        lead={`Calls in the name of a provider of ${tenant?.displayName ?? tenant?.slug ?? tenant?.name ?? 'the tenant'} that were not taken.`}
      />
      <Filters context={context} />
      {items.length === 0 ? (
        <NoCalls context={context} next={next} />
      ) : (
        <ul class="refused-list" aria-label="Refused calls, newest first">
          {items.map((call) => (
            <Call key={call.id} call={call} />
          ))}
        </ul>
      )}
      {items.length > 0 && (
        <Pager path="/refused" query={query} next={next} shown={items.length} noun="calls" />
      )}
    </>
  )
}

function Filters({ context }: Pick<RefusedParts, 'context'>) {
  const { query } = context
  const causes = [...refusalCauses, ...refusedCauses]
    .map((value) => ({ value, label: refusedAdviceOf(value).title }))
    .toSorted((one, other) => one.label.localeCompare(other.label, 'en'))
  return (
    <FilterForm
      path="/refused"
      kept={{}}
      isActive={query['provider'] !== undefined || query['cause'] !== undefined}
      fields={[
        ...tenantFields(context),
        {
          ...{ kind: 'choice', name: 'provider', label: 'Provider', value: query['provider'], none: 'Any' },
          choices: providerNames.map((name) => ({ value: name, label: name })),
        },
        {
          ...{ kind: 'choice', name: 'cause', label: 'Cause', value: query['cause'], none: 'Any' },
          choices: causes,
        },
      ]}
    />
  )
}

function Call({ call }: { readonly call: RefusedCall }) {
  const { id, provider, cause, refusedAtMs, sourceAddress, headers, sample } = call
  const { title, means, todo } = refusedAdviceOf(cause)
  return (
    <li>
      <details id={id} class="refused-call">
        <summary>
          <span class="refused-cause">
            <Badge tone="bad">{title}</Badge>
          </span>
          <span>{provider}</span>
          <span class="muted refused-address">{sourceAddress ?? 'address unknown'}</span>
          <span class="refused-time">
            <Time atMs={refusedAtMs} />
          </span>
        </summary>
        <div class="refused-body">
          <p>{means}</p>
          <p class="todo">{todo}</p>
          <Facts
            facts={[
              ['Cause', <code>{cause}</code>],
              ['From', sourceAddress === null ? undefined : <code>{sourceAddress}</code>],
              ['At', <Time atMs={refusedAtMs} format="full" />],
            ]}
          />
          <h3>Headers, redacted</h3>
          <JsonBlock text={JSON.stringify(headers)} label={`headers of ${id}`} />
          {sample !== null && (
            <>
              <h3>The start of its body, redacted</h3>
              <JsonBlock text={sample} label={`body of ${id}`} />
            </>
          )}
        </div>
      </details>
    </li>
  )
}

function NoCalls({ context, next }: { readonly context: PageContext; readonly next: string | undefined }) {
  const { query, tenant } = context
  if (next !== undefined)
    return (
      <Empty icon="search" title="Nothing found yet">
        <p>Among those that were searched so far no call matches. There are older ones.</p>
        <div class="buttons">
          <LinkButton tone="primary" href={link('/refused', { ...query, after: next })}>
            Search on
          </LinkButton>
        </div>
      </Empty>
    )
  if (query['provider'] !== undefined || query['cause'] !== undefined)
    return (
      <Empty icon="search" title="No call matches">
        <div class="buttons">
          <LinkButton href={link('/refused', { tenant: tenant?.id })}>Without filters</LinkButton>
        </div>
      </Empty>
    )
  return (
    <Empty icon="check" title="No call was refused">
      <p>What providers sent was taken. Calls that name no tenant are counted only.</p>
    </Empty>
  )
}
