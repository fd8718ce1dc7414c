import type { LockListRequest } from '#internal/backoffice/index.ts'
import { type LockHistoryEntry, lockStates } from '#internal/records/index.ts'
import { choicesOf, parseTimeFields } from '../components/form.tsx'
import { listRow, type Problems, Table } from '../components/list.tsx'
import { durationText, StateBadge, Time } from '../components/text.tsx'
import { link, nameOf, type PageContext } from '../page.ts'

const path = '/executions'

type LockFilters = Omit<LockListRequest, 'tenantId' | 'after' | 'limit'>

/** Lists the lock history of a tenant, the latest acquired first. */
export const lockHistoryRow = listRow<LockHistoryEntry, LockFilters>({
  ...{ path, section: 'locks', title: 'Lock history', noun: 'locks', needsTenant: true },
  lead: ({ tenant }) =>
    `Every lock of ${tenant && nameOf(tenant)}, from its acquisition to its end. Up to a second behind; for diagnosis only.`,
  fields: [
    { kind: 'text', name: 'scope', label: 'Scope', charsMax: 128 },
    { kind: 'text', name: 'key', label: 'Key', charsMax: 255 },
    { kind: 'choice', name: 'state', label: 'State', none: 'Any', choices: choicesOf(lockStates) },
    { kind: 'time', name: 'from', label: 'From (UTC)' },
    { kind: 'time', name: 'to', label: 'Until (UTC)' },
  ],
  read: readLockFilters,
  async load({ backoffice, actor, tenant }, asked) {
    if (tenant === undefined) return { kind: 'notFound' }
    return backoffice.locks.list(actor, { tenantId: tenant.id, ...asked })
  },
  rows: ({ query }, items) => (
    <Table<LockHistoryEntry>
      caption="Lock history"
      rows={items}
      keyOf={({ fence }) => fence}
      columns={[
        {
          ...{ title: 'Key', isWide: true },
          cell: ({ scope, key }) => (
            <a href={link(path, { tenant: query['tenant'], scope, key })} title="All locks of this key">
              <code>{key}</code>
            </a>
          ),
        },
        { title: 'Scope', cell: ({ scope }) => <code class="clipped">{scope}</code> },
        { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
        { title: 'Acquired', cell: ({ acquiredAtMs }) => <Time atMs={acquiredAtMs} /> },
        { title: 'Held for', isNumber: true, cell: heldText },
        { title: 'Status', isNumber: true, cell: ({ status }) => status ?? '–' },
        { title: 'Fence', isNumber: true, cell: ({ fence }) => <code>{fence}</code> },
      ]}
    />
  ),
  examined: () => 'the locks that one search examines',
  empty: {
    ...{ icon: 'locks', title: 'No locks yet' },
    text: (
      <>
        Every lock that <code>POST /v1/record</code> acquires is listed here.
      </>
    ),
  },
  noMatch:
    'Scope and key have to match exactly, including case. Locks are deleted after the tenant’s retention.',
})

/** Parses the filters of the lock history. Pure. */
export function readLockFilters(query: PageContext['query']): {
  readonly asked: LockFilters
  readonly problems: Problems
} {
  const { scope, key } = query
  const state = lockStates.find((each) => each === query['state'])
  const { fromMs, toMs, problems } = parseTimeFields(query)
  return {
    asked: { scope, key, state, fromMs, toMs },
    problems: {
      ...(query['state'] !== undefined && state === undefined && { state: 'Choose one of the states' }),
      ...problems,
      ...(key !== undefined && scope === undefined && { scope: 'A search by key needs its scope' }),
    },
  }
}

function heldText({ durationMs, heldUntilMs, state }: LockHistoryEntry): string {
  if (durationMs !== null) return durationText(durationMs)
  return state === 'running' && heldUntilMs !== null ? 'running' : '–'
}
