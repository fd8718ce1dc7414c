import type { AuditRecord } from '#internal/access/index.ts'
import { Empty, PageHeader } from '../components/block.tsx'
import { type Field, FilterForm } from '../components/form.tsx'
import { Pager, Table } from '../components/table.tsx'
import { Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { parseTimeFields } from '../time-field.ts'
import { NotSearched, SearchGoesOn } from './search-stops.tsx'
import { tenantFields } from './tenant-field.ts'

const path = '/audit'
const searchCharsMax = 200

/** Who did what, the latest first. */
export const auditRow: PageRow = {
  ...{ method: 'GET', path, section: 'audit' },
  async show(context) {
    const { backoffice, actor, whose, query } = context
    const { asked, problems } = readFilter(query)
    const isWrong = Object.keys(problems).length > 0
    if (isWrong)
      return {
        ...shown('Audit log', <Audit {...{ context, problems, items: [], next: undefined }} />),
        status: 400,
      }
    const listed = await backoffice.audit.list(actor, { ...whose, ...asked, after: query['after'] })
    if (listed.kind !== 'ok') return listed
    const { items, next } = listed.value
    return shown('Audit log', <Audit {...{ context, problems, items, next }} />)
  },
}

const filterNames = ['actor', 'action', 'from', 'to'] as const
type FilterName = (typeof filterNames)[number]
type Problems = Partial<Record<FilterName, string>>

/** Reads the filters of the address, or says which of them are none. Pure. */
export function readFilter(query: PageContext['query']) {
  const { actor, action } = query
  const times = parseTimeFields(query)
  const tooLong = `Use at most ${searchCharsMax} characters`
  const problems: Problems = {
    ...(actor !== undefined && actor.length > searchCharsMax && { actor: tooLong }),
    ...(action !== undefined && action.length > searchCharsMax && { action: tooLong }),
    ...times.problems,
  }
  return { asked: { actor, action, fromMs: times.fromMs, toMs: times.toMs }, problems }
}

interface AuditParts {
  readonly context: PageContext
  readonly problems: Problems
  readonly items: readonly AuditRecord[]
  readonly next: string | undefined
}

function Audit({ context, problems, items, next }: AuditParts) {
  const { query } = context
  const kept = { tenant: query['tenant'] }
  const isActive = filterNames.some((name) => query[name] !== undefined)
  return (
    <>
      <PageHeader
        title="Audit log"
        lead="Who did what and who read which payload, in the dashboard, by the internal contract and by commands. Kept for 400 days."
      />
      <FilterForm
        path={path}
        isActive={isActive || kept.tenant !== undefined}
        fields={[...tenantFields(context), ...fieldsOf(query, problems)]}
      />
      <Table<AuditRecord>
        caption="Audit log"
        rows={items}
        keyOf={({ id }) => id}
        empty={<NoEntries {...{ isActive, next, isWrong: Object.keys(problems).length > 0 }} />}
        columns={[
          { title: 'When', cell: ({ atMs }) => <Time atMs={atMs} /> },
          {
            title: 'Who',
            cell: ({ actor }) => (
              <a class="clipped" href={link(path, { ...kept, actor })} title={`All by ${actor}`}>
                {actor}
              </a>
            ),
          },
          { title: 'What', cell: ({ action }) => <a href={link(path, { ...kept, action })}>{action}</a> },
          { title: 'Tenant', cell: ({ tenantId }) => <TenantOf {...{ tenantId, context }} /> },
          { title: 'On what', isWide: true, cell: ({ detail }) => <Detail detail={detail} /> },
        ]}
      />
      <Pager path={path} query={query} next={next} shown={items.length} noun="entries" />
    </>
  )
}

function fieldsOf(query: PageContext['query'], problems: Problems): readonly Field[] {
  const of = (name: FilterName) => ({ name, value: query[name], problem: problems[name] })
  return [
    {
      ...{ kind: 'text', label: 'Who', charsMax: searchCharsMax, placeholder: 'Part of a name' },
      ...of('actor'),
    },
    {
      ...{ kind: 'text', label: 'What', charsMax: searchCharsMax, placeholder: 'payloads.read, or replays.' },
      ...of('action'),
    },
    { ...{ kind: 'time', label: 'From (UTC)' }, ...of('from') },
    { ...{ kind: 'time', label: 'Until (UTC)' }, ...of('to') },
  ]
}

function TenantOf({
  tenantId,
  context,
}: {
  readonly tenantId: AuditRecord['tenantId']
  readonly context: PageContext
}) {
  if (tenantId === null) return <span class="muted">–</span>
  return <a href={`/tenants/${tenantId}`}>{context.tenantLabel(tenantId)}</a>
}

const valueCharsMax = 200

function Detail({ detail }: Pick<AuditRecord, 'detail'>) {
  const entries = Object.entries(detail).filter(([, value]) => !isEmpty(value))
  if (entries.length === 0) return <span class="muted">–</span>
  return (
    <span class="wraps details">
      {entries.map(([name, value]) => (
        <span key={name}>
          <span class="muted">{name}</span> <code>{valueText(value)}</code>
        </span>
      ))}
    </span>
  )
}

function isEmpty(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.length === 0)
}

function valueText(value: unknown): string {
  const isList = Array.isArray(value) && value.every((each) => typeof each === 'string')
  const plain = isList ? value.join(', ') : value
  const text = typeof plain === 'string' ? plain : (JSON.stringify(plain) ?? '')
  return text.length > valueCharsMax ? `${text.slice(0, valueCharsMax)}…` : text
}

function NoEntries({
  isActive,
  isWrong,
  next,
}: {
  readonly isActive: boolean
  readonly isWrong: boolean
  readonly next: string | undefined
}) {
  if (isWrong) return <NotSearched />
  if (next !== undefined) return <SearchGoesOn lookedAt="the 50,000 entries that were looked at" />
  return isActive ? (
    <Empty icon="search" title="No entry matches">
      “Who” is part of a name in any case; “What” is an action or how it begins.
    </Empty>
  ) : (
    <Empty icon="audit" title="Nothing was done yet">
      Signing in, reading a payload and every change leave an entry.
    </Empty>
  )
}
