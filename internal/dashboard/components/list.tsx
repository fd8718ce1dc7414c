import type { ComponentChildren } from 'preact'
import type { Outcome, Page } from '#internal/backoffice/index.ts'
import { pageItemsDefault } from '#internal/base/index.ts'
import { link, type PageContext, type PageRow, type SectionName, type Shown, shown } from '../page.ts'
import { invalidText } from '../problem.tsx'
import { Empty, Live, Notice, PageHeader, Segments } from './block.tsx'
import {
  type Field,
  type FieldValues,
  FilterForm,
  filled,
  LinkButton,
  type Problems,
  readFields,
} from './form.tsx'
import { appliedTimes, replacedChoice } from './received.ts'
import { Icon, type IconName } from './text.tsx'

export interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  /** Takes the remaining width and truncates long text. */
  readonly isWide?: boolean
  /** Hidden on narrow screens. */
  readonly isMinor?: boolean
  /** Hides the column below a page width of 1 400 px (1 600 px with `isWide`). Elements of class `unless-wide` are then shown instead. */
  readonly isExtra?: boolean
  cell(row: Row): ComponentChildren
}

/** Renders each row as a card on a phone. The first column is the heading of its row. `empty` replaces a table without rows. */
export function Table<Row>(props: {
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly empty?: ComponentChildren
  /** Identifies rows for live updates, so that no row moves while the pointer or the focus is on it. */
  readonly stable?: {
    /** HTML id of the table, unique on the page. */
    readonly id: string
    rowId(row: Row): string
    /** True if new rows are not shown until the user asks for them. Otherwise only the row under the pointer or focus is kept in place. */
    readonly waits?: boolean
  }
}) {
  const { caption, columns, rows, empty = null, stable } = props
  if (rows.length === 0) return <>{empty}</>
  return (
    <div class="table-wrap" role="region" aria-label={caption} tabIndex={0}>
      <table {...(stable && { id: stable.id, 'data-stable': stable.waits === true ? 'wait' : 'hold' })}>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr {...(stable && { id: `${stable.id}-${stable.rowId(row)}` })}>
              {columns.map((column, nth) => {
                const own = { class: classOf(column), 'data-label': column.title }
                return nth === 0 ? (
                  <th scope="row" {...own}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td {...own}>{column.cell(row)}</td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function classOf(column: Column<never>): string | undefined {
  const { isNumber, isWide, isMinor, isExtra } = column
  const kind = isNumber === true ? 'is-number' : isWide === true ? 'is-wide' : ''
  const width = isMinor === true ? 'is-minor' : isExtra === true ? 'is-extra' : ''
  const text = `${kind} ${width}`.trim()
  return text === '' ? undefined : text
}

export interface Filter extends Field {
  /** Place of the filter: `tabs` above the others, or `times` collapsed below them. Default: in the row of filters. */
  readonly place?: 'tabs' | 'times'
}

/** List page with filters in its address and keyset pagination. It tells the user if a search stopped at its row limit. */
export interface ListSpec<Row, Filters extends readonly Filter[]> {
  readonly path: string
  readonly section: SectionName
  readonly title: string
  readonly noun: string
  lead(context: PageContext): string
  /** Limits the list to one tenant. Without one, the page offers a choice of tenants. */
  readonly needsTenant?: boolean
  readonly hidesTenant?: boolean
  readonly fields: Filters
  /** Label of the collapsed filters. Default: Exact times. */
  readonly moreLabel?: string
  /** `asked` contains the values of the filters and the cursor. */
  load(
    context: PageContext,
    asked: FieldValues<Filters> & {
      readonly after?: string | undefined
    },
  ): Promise<Outcome<Page<Row>>>
  actions?(context: PageContext): Promise<ComponentChildren> | ComponentChildren
  columns?(context: PageContext): readonly Column<Row>[] | Promise<readonly Column<Row>[]>
  aboveFilters?(context: PageContext): Promise<ComponentChildren> | ComponentChildren
  /** Returns the controls above the table. Called with at least one row. */
  bar?(context: PageContext, items: readonly Row[]): Promise<ComponentChildren> | ComponentChildren
  /** Renders rows in a form other than a table. Called with at least one row. */
  rows?(items: readonly Row[], context: PageContext): ComponentChildren
  /** Returns the refresh interval of the first page. Omit for no refresh. */
  live?(items: readonly Row[]): 'tick' | 'slow' | 'status'
  /** Returns true if rows change soon: the first page then refreshes with each tick. Not called if `live` returns `tick`. */
  isMoving?(context: PageContext): Promise<boolean>
  /** Required for a table that refreshes: new rows then wait until the user asks for them. */
  rowId?(row: Row): string
  /** Describes the rows that a search examined before it stopped, such as "the 1,000 latest". */
  examined(next: string): ComponentChildren
  /** Shown if there are no rows although no filter is active. */
  readonly empty: { readonly icon: IconName; readonly title: string; readonly text: ComponentChildren }
  /** Returns the hint below the text "No … match". */
  noMatch?(query: PageContext['query']): ComponentChildren
  /** Default: 50. */
  readonly pageSize?: number
}

export function listRow<Row, const Filters extends readonly Filter[]>(spec: ListSpec<Row, Filters>): PageRow {
  const { path, section, title } = spec
  return {
    method: 'GET',
    path,
    section,
    async show(context) {
      const { query } = context
      if (spec.needsTenant === true && context.tenant === undefined) return { kind: 'needsTenant' }
      const { values, problems } = readFields(spec.fields, query)
      const [problem] = Object.values(problems)
      if (problem !== undefined) return refusedList({ spec, context }, problem, problems)
      const [listed, actions, aboveFilters, columns] = await Promise.all([
        spec.load(context, { ...values, after: query['after'] }),
        spec.actions?.(context),
        spec.aboveFilters?.(context),
        spec.columns?.(context),
      ])
      if (listed.kind === 'invalid') return refusedList({ spec, context }, invalidText(listed))
      if (listed.kind !== 'ok') return listed
      const { items } = listed.value
      const bar = items.length > 0 && (await spec.bar?.(context, items))
      const list = <List spec={spec} context={context} page={listed.value} columns={columns} />
      const every = spec.live?.(items) ?? 'slow'
      const isMoving = every !== 'tick' && (await spec.isMoving?.(context)) === true
      const isLive = spec.live !== undefined && query['after'] === undefined
      return shown(
        title,
        <>
          <PageHeader title={title} lead={spec.lead(context)}>
            {actions}
          </PageHeader>
          {aboveFilters}
          <Filters spec={spec} context={context} />
          {isLive ? (
            <>
              {listed.value.items.length > 0 && (
                <LiveBar here={context.here} noun={spec.noun}>
                  {bar}
                </LiveBar>
              )}
              <Live id="list" here={context.here} every={isMoving ? 'tick' : every}>
                {list}
              </Live>
            </>
          ) : (
            <>
              {bar && <div class="live-bar">{bar}</div>}
              {list}
            </>
          )}
        </>,
      )
    },
  }
}

/** Renders a link that shows new rows and a button that pauses updates. The script fills in the link; without scripts both are hidden. */
function LiveBar(props: {
  readonly here: string
  readonly noun: string
  readonly children?: ComponentChildren
}) {
  const { here, noun, children } = props
  return (
    <div class="live-bar">
      {children}
      <span role="status">
        <a class="button is-news" href={here} data-news={noun} hidden />
      </span>
      <button type="button" class="button is-plain" data-pause="list" hidden>
        Pause updates
      </button>
    </div>
  )
}

interface ListParts<Row> {
  readonly spec: ListSpec<Row, readonly Filter[]>
  readonly context: PageContext
}

function refusedList<Row>(
  { spec, context }: ListParts<Row>,
  problem: string,
  problems: Problems = {},
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

function Filters<Row>(props: ListParts<Row> & { readonly problems?: Problems }) {
  const {
    spec: { path, fields, moreLabel, hidesTenant = false },
    context,
    problems = {},
  } = props
  const query = appliedTimes(context.query)
  const replaced = replacedChoice(context.query)
  const tenant = hidesTenant ? [] : tenantFields(context)
  const at = (place: Filter['place']) =>
    filled(
      fields.filter((each) => each.place === place),
      query,
      problems,
    )
  const [tabs] = at('tabs')
  const isActive = [...tenant, ...at(undefined), ...at('times')].some(({ value }) => value !== undefined)
  const all = [...tenant, ...at(undefined)]
  return (
    <>
      {tabs && <Tabs field={tabs} path={path} query={query} />}
      {all.length > 0 && (
        <FilterForm
          path={path}
          isActive={isActive}
          fields={all}
          times={at('times')}
          moreLabel={moreLabel}
          kept={tabs ? { [tabs.name]: tabs.value } : {}}
        />
      )}
      {replaced !== undefined && (
        <p class="muted searched" role="status">
          The exact times apply, and not “{replaced}”.{' '}
          <a href={link(path, { ...context.query, from: undefined, to: undefined, after: undefined })}>
            Use “{replaced}” instead
          </a>
        </p>
      )}
    </>
  )
}

function Tabs(props: { readonly query: PageContext['query']; readonly field: Field; readonly path: string }) {
  const {
    field: { name, label, value, choices = [] },
    path,
    query,
  } = props
  const { after: _after, ...kept } = query
  const all = [{ value: undefined, label: 'All' }, ...choices]
  const links = all.map((each) => ({
    text: each.label,
    href: link(path, { ...kept, [name]: each.value }),
    isCurrent: each.value === value,
  }))
  return <Segments label={label} isTabs links={links} />
}

/** Returns a field for the slug, id or `namespace/name` of a tenant. Returns no field for a tenant's key, which has only one tenant. */
export function tenantFields({ actor, tenant }: PageContext): readonly Field[] {
  if (actor.kind === 'tenantKey') return []
  const value = tenant && (tenant.slug ?? `${tenant.namespace}/${tenant.name}`)
  return [{ kind: 'text', name: 'tenant', label: 'Tenant', value, placeholder: 'All', charsMax: 200 }]
}

function List<Row>(
  props: ListParts<Row> & {
    readonly page: Page<Row>
    readonly columns: readonly Column<Row>[] | undefined
  },
) {
  const { spec, context, page, columns } = props
  const { title, noun, pageSize = pageItemsDefault, rows, rowId } = spec
  const stable = rowId && { id: 'rows', rowId, waits: true }
  const { items, next } = page
  if (items.length === 0) return <NoRows spec={spec} context={context} next={next} />
  const isCut = next !== undefined && items.length < pageSize
  return (
    <>
      {rows?.(items, context)}
      {columns && <Table<Row> caption={title} rows={items} columns={columns} {...(stable && { stable })} />}
      {isCut && (
        <p class="muted searched">
          The search covered {spec.examined(next)}. Older {noun} follow.
        </p>
      )}
      <Pager {...spec} query={context.query} next={next} shown={items.length} />
    </>
  )
}

function NoRows<Row>(props: ListParts<Row> & { readonly next: string | undefined }) {
  const {
    spec: { path, noun, fields, empty, noMatch, examined },
    context: { query, tenant },
    next,
  } = props
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
  const isFiltered = ['after', ...fields.map(({ name }) => name)].some((name) => query[name] !== undefined)
  if (!isFiltered)
    return (
      <Empty icon={empty.icon} title={empty.title}>
        <p>{empty.text}</p>
      </Empty>
    )
  return (
    <Empty icon="search" title={`No ${noun} match`}>
      {noMatch && <p>{noMatch(query)}</p>}
      <div class="buttons">
        <LinkButton href={link(path, { tenant: tenant && query['tenant'] })}>Without filters</LinkButton>
      </div>
    </Empty>
  )
}

/** Renders links to the next and the first page. Keyset pagination has neither page numbers nor a total. */
function Pager(props: {
  readonly query: PageContext['query']
  readonly path: string
  readonly next: string | undefined
  readonly shown: number
  readonly noun: string
}) {
  const { path, query, next, shown: count, noun } = props
  const { after, ...kept } = query
  if (after === undefined && next === undefined) return null
  return (
    <nav class="pager" aria-label={`Pages of ${noun}`}>
      <span class="pager-count">
        {count} {noun} on this page
      </span>
      {after !== undefined && (
        <a class="button" href={link(path, kept)}>
          <Icon name="previous" /> First page
        </a>
      )}
      {next !== undefined && (
        <a class="button" href={link(path, { ...kept, after: next })} rel="next">
          Next page <Icon name="next" />
        </a>
      )}
    </nav>
  )
}
