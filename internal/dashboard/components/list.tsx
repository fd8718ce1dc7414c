import type { ComponentChildren, Key } from 'preact'
import type { Outcome, Page } from '#internal/backoffice/index.ts'
import { link, type PageContext, type PageRow, type SectionName, type Shown, shown } from '../page.ts'
import { Empty, Live, Notice, PageHeader } from './block.tsx'
import { type Field, FilterForm, LinkButton } from './form.tsx'
import { Icon, type IconName } from './text.tsx'

/** Column of a table. */
export interface Column<Row> {
  readonly title: string
  /** Aligned at the end. */
  readonly isNumber?: boolean
  /** Takes the remaining width and truncates. */
  readonly isWide?: boolean
  /** Omitted on a phone. */
  readonly isMinor?: boolean
  cell(row: Row): ComponentChildren
}

/** A table; on a phone each row is a card. The first column is the heading of its row. Without rows `empty` replaces it. */
export function Table<Row>({
  caption,
  columns,
  rows,
  keyOf,
  empty = null,
}: {
  /** Name for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  keyOf(row: Row): Key
  readonly empty?: ComponentChildren
}) {
  if (rows.length === 0) return <>{empty}</>
  return (
    <div class="table-wrap" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column, nth) => {
                const own = { class: classOf(column), 'data-label': column.title }
                const key = column.title
                return nth === 0 ? (
                  <th key={key} scope="row" {...own}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={key} {...own}>
                    {column.cell(row)}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function classOf({
  isNumber = false,
  isWide = false,
  isMinor = false,
}: Pick<Column<never>, 'isNumber' | 'isWide' | 'isMinor'>): string | undefined {
  const kind = isNumber ? 'is-number' : isWide ? 'is-wide' : ''
  const text = `${kind}${isMinor ? ' is-minor' : ''}`.trim()
  return text === '' ? undefined : text
}

/** Problems of filters by field name. */
export type Problems<Name extends string = string> = Readonly<Partial<Record<Name, string>>>

/** A list page: filters in the address, keyset pages, and a note where a search stopped at its bound. */
export interface ListSpec<Row, Asked extends object> {
  readonly path: string
  readonly section: SectionName
  readonly title: string
  /** Plural of the rows. */
  readonly noun: string
  lead(context: PageContext): string
  /** The list needs one tenant; without it the page offers the choice. */
  readonly needsTenant?: boolean
  /** Hides the filter by tenant. */
  readonly hidesTenant?: boolean
  /** Filter fields; values and problems are filled in. */
  readonly fields?: readonly Field[]
  /** Rarely used filter fields, collapsed. */
  readonly more?: { readonly label: string; readonly fields: readonly Field[] }
  /** Query parameters that filter without a field, such as tabs. */
  readonly kept?: readonly string[]
  /** Parses the filters. */
  read?(query: PageContext['query'], nowMs: number): { readonly asked: Asked; readonly problems: Problems }
  load(context: PageContext, asked: Asked & PagePlace): Promise<Outcome<Page<Row>>>
  /** Buttons of the header. */
  actions?(context: PageContext): Promise<ComponentChildren> | ComponentChildren
  /** Content between header and filters. */
  above?(context: PageContext): ComponentChildren
  /** Renders at least one row. */
  rows(context: PageContext, items: readonly Row[]): ComponentChildren
  /** Refresh interval of the first page. Omit for none. */
  live?(items: readonly Row[]): 'tick' | 'slow'
  /** Describes the rows that a search examined before it stopped, such as "the 1,000 latest". */
  examined(next: string): ComponentChildren
  /** Shown if nothing was filtered and there are no rows. */
  readonly empty: { readonly icon: IconName; readonly title: string; readonly text: ComponentChildren }
  /** Hint below "No … match". */
  readonly noMatch?: string
  /** Rows of a full page, if not the 50 of the backoffice. */
  readonly pageSize?: number
}

interface PagePlace {
  readonly after?: string | undefined
}

const pageSizeDefault = 50

/** Makes the row of a list page. */
export function listRow<Row, Asked extends object = object>(spec: ListSpec<Row, Asked>): PageRow {
  const { path, section, title } = spec
  return {
    ...{ method: 'GET', path, section },
    async show(context) {
      const { query, nowMs } = context
      if (spec.needsTenant === true && context.tenant === undefined) return { kind: 'needsTenant' }
      const { asked, problems } = spec.read?.(query, nowMs) ?? { asked: {} as Asked, problems: {} }
      if (Object.keys(problems).length > 0) return refusedList(spec, context, problems)
      const [listed, actions] = await Promise.all([
        spec.load(context, { ...asked, after: query['after'] }),
        spec.actions?.(context),
      ])
      if (listed.kind === 'invalid') return refusedList(spec, context, problems, listed.problem)
      if (listed.kind !== 'ok') return listed
      const list = <List spec={spec} context={context} page={listed.value} />
      const isLive = spec.live !== undefined && query['after'] === undefined
      return shown(
        title,
        <>
          <PageHeader title={title} lead={spec.lead(context)}>
            {actions}
          </PageHeader>
          <Filters spec={spec} context={context} problems={problems} />
          {isLive ? (
            <Live id="list" here={context.here} every={spec.live?.(listed.value.items) ?? 'slow'}>
              {list}
            </Live>
          ) : (
            list
          )}
        </>,
      )
    },
  }
}

function refusedList<Row, Asked extends object>(
  spec: ListSpec<Row, Asked>,
  context: PageContext,
  problems: Problems,
  problem = Object.values(problems)[0],
): Shown {
  const body = (
    <>
      <PageHeader title={spec.title} lead={spec.lead(context)} />
      <Filters spec={spec} context={context} problems={problems} />
      <Notice tone="bad" title="The filters are invalid, so nothing was searched">
        {problem}
      </Notice>
    </>
  )
  return shown(spec.title, body, 400)
}

interface ListParts<Row, Asked extends object> {
  readonly spec: ListSpec<Row, Asked>
  readonly context: PageContext
}

function Filters<Row, Asked extends object>({
  spec,
  context,
  problems,
}: ListParts<Row, Asked> & { readonly problems: Problems }) {
  const { query } = context
  const { fields = [], more, kept = [], path } = spec
  const fill = (each: Field): Field => ({ ...each, value: query[each.name], problem: problems[each.name] })
  const tenant = spec.hidesTenant === true ? [] : tenantFields(context)
  const isTenantChosen = tenant.some(({ value }) => value !== undefined)
  const isActive = [...fields, ...(more?.fields ?? [])].some(({ name }) => query[name] !== undefined)
  const all = [...tenant, ...fields.map(fill)]
  return (
    <>
      {spec.above?.(context)}
      {all.length > 0 && (
        <FilterForm
          path={path}
          kept={Object.fromEntries(kept.map((name) => [name, query[name]]))}
          isActive={isActive || isTenantChosen}
          fields={all}
          more={more && { label: more.label, fields: more.fields.map(fill) }}
        />
      )}
    </>
  )
}

/** The field for a tenant, by slug, id or `namespace/name`; none for a tenant's key. */
export function tenantFields({ actor, tenant }: PageContext): readonly Field[] {
  if (actor.kind === 'tenantKey') return []
  const value = tenant && (tenant.slug ?? `${tenant.namespace}/${tenant.name}`)
  return [{ kind: 'text', name: 'tenant', label: 'Tenant', value, placeholder: 'All', charsMax: 200 }]
}

function List<Row, Asked extends object>({
  spec,
  context,
  page: { items, next },
}: ListParts<Row, Asked> & { readonly page: Page<Row> }) {
  const { path, noun, pageSize = pageSizeDefault } = spec
  if (items.length === 0) return <NoRows spec={spec} context={context} next={next} />
  const isCut = next !== undefined && items.length < pageSize
  return (
    <>
      {spec.rows(context, items)}
      {isCut && (
        <p class="muted searched">
          The search covered {spec.examined(next)}. Older {noun} follow.
        </p>
      )}
      <Pager path={path} query={context.query} next={next} shown={items.length} noun={noun} />
    </>
  )
}

function NoRows<Row, Asked extends object>({
  spec: { path, noun, fields = [], more, kept = [], empty, noMatch, examined },
  context: { query, tenant },
  next,
}: ListParts<Row, Asked> & { readonly next: string | undefined }) {
  if (next !== undefined)
    return (
      <Empty icon="search" title="Nothing found yet">
        <p>
          None of {examined(next)} match. Older {noun} were not searched yet.
        </p>
        <div class="buttons">
          <LinkButton tone="primary" href={link(path, { ...query, after: next })}>
            Continue the search
          </LinkButton>
        </div>
      </Empty>
    )
  const names = [...fields, ...(more?.fields ?? [])].map(({ name }) => name)
  const isFiltered = [...names, ...kept, 'after'].some((name) => query[name] !== undefined)
  if (!isFiltered)
    return (
      <Empty icon={empty.icon} title={empty.title}>
        <p>{empty.text}</p>
      </Empty>
    )
  return (
    <Empty icon="search" title={`No ${noun} match`}>
      {noMatch !== undefined && <p>{noMatch}</p>}
      <div class="buttons">
        <LinkButton href={link(path, { tenant: tenant && query['tenant'] })}>Without filters</LinkButton>
      </div>
    </Empty>
  )
}

/** Links to the first and the next page. Keyset pages have neither numbers nor a total. */
export function Pager({
  path,
  query,
  next,
  shown: count,
  noun,
}: {
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly next: string | undefined
  readonly shown: number
  readonly noun: string
}) {
  const { after, ...kept } = query
  if (after === undefined && next === undefined) return null
  return (
    <nav class="pager" aria-label={`Pages of ${noun}`}>
      <span class="pager-count">
        {count} {noun} on this page
      </span>
      {after !== undefined && (
        <a class="button" href={link(path, kept)}>
          <Icon name="previous" /> Newest
        </a>
      )}
      {next !== undefined && (
        <a class="button" href={link(path, { ...kept, after: next })} rel="next">
          Older <Icon name="next" />
        </a>
      )}
    </nav>
  )
}
