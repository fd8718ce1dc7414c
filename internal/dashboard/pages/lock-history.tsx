import { type LockHistoryEntry, lockStates } from '#internal/records/index.ts'
import { choicesOf } from '../components/form.tsx'
import { type Filter, listRow } from '../components/list.tsx'
import { durationText, StateBadge, Time } from '../components/text.tsx'
import { link, nameOf } from '../page.ts'

const path = '/executions'

export const lockFields = [
  { kind: 'text', name: 'scope', label: 'Scope', charsMax: 128 },
  { kind: 'text', name: 'key', label: 'Key', charsMax: 255 },
  { kind: 'choice', name: 'state', label: 'State', none: 'Any', choices: choicesOf(lockStates) },
  { kind: 'time', name: 'from', label: 'From' },
  { kind: 'time', name: 'to', label: 'Until' },
] as const satisfies readonly Filter[]

export const lockHistoryRow = listRow({
  path,
  section: 'locks',
  title: 'Lock history',
  noun: 'locks',
  needsTenant: true,
  fields: lockFields,
  lead: ({ tenant }) =>
    `Every lock of ${tenant && nameOf(tenant)}, from acquisition to end. Delayed by up to a second; for diagnosis only.`,
  async load({ backoffice, actor, tenant }, { from, to, ...asked }) {
    if (tenant === undefined) return { kind: 'notFound' }
    return backoffice.locks.list(actor, { tenantId: tenant.id, ...asked, fromMs: from, toMs: to })
  },
  columns: ({ query }) => [
    {
      title: 'Key',
      isWide: true,
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
  ],
  examined: () => 'the locks that one search examines',
  empty: {
    icon: 'locks',
    title: 'No locks yet',
    text: (
      <>
        Every lock that <code>POST /v1/record</code> acquires is listed here.
      </>
    ),
  },
  noMatch: () =>
    'Scope and key must match exactly, including case. Locks are deleted after the tenant’s retention.',
})

function heldText({ durationMs, expiresAtMs, state }: LockHistoryEntry): string {
  if (durationMs !== null) return durationText(durationMs)
  return state === 'running' && expiresAtMs !== null ? 'running' : '–'
}
