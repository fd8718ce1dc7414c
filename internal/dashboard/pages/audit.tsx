import {
  type AuditRecord,
  auditActionFilters,
  auditExaminedMax,
  auditKeptDays,
} from '#internal/access/index.ts'
import { type Filter, listRow } from '../components/list.tsx'
import { countText, Time } from '../components/text.tsx'
import { link } from '../page.ts'

const path = '/audit'

const actionChoices = auditActionFilters.map((value) => ({
  value,
  label: value.endsWith('.') ? `${value}…` : value,
}))

/** Entries that other versions wrote can have actions for which there is no filter. */
const isFilter = (action: string) => auditActionFilters.some((each) => each === action)

export const auditFields = [
  { kind: 'text', name: 'actor', label: 'Actor', charsMax: 200, placeholder: 'Part of a name' },
  { kind: 'choice', name: 'action', label: 'Action', none: 'Any', choices: actionChoices },
  { kind: 'time', name: 'from', label: 'From' },
  { kind: 'time', name: 'to', label: 'Until' },
] as const satisfies readonly Filter[]

export const auditRow = listRow({
  path,
  section: 'audit',
  title: 'Audit log',
  noun: 'entries',
  fields: auditFields,
  lead: () =>
    `Changes, and reads of and searches in raw payloads, by the dashboard, the APIs and commands. Kept for ${auditKeptDays} days.`,
  load: ({ backoffice, actor, selection }, { from, to, ...asked }) =>
    backoffice.audit.list(actor, { ...selection, ...asked, fromMs: from, toMs: to }),
  columns({ query, tenantLabel }) {
    const kept = { tenant: query['tenant'] }
    return [
      { title: 'Time', cell: ({ occurredAtMs }) => <Time atMs={occurredAtMs} /> },
      {
        title: 'Actor',
        cell: ({ actor }) => (
          <a class="clipped" href={link(path, { ...kept, actor })} title={`All entries of ${actor}`}>
            {actor}
          </a>
        ),
      },
      {
        title: 'Action',
        cell: ({ action }) =>
          isFilter(action) ? <a href={link(path, { ...kept, action })}>{action}</a> : action,
      },
      {
        title: 'Tenant',
        cell: ({ tenantId }) =>
          tenantId === null ? (
            <span class="muted">–</span>
          ) : (
            <a href={`/tenants/${tenantId}`}>{tenantLabel(tenantId)}</a>
          ),
      },
      { title: 'Details', isWide: true, cell: ({ detail }) => <Detail detail={detail} /> },
    ]
  },
  examined: () => `the ${countText(auditExaminedMax)} entries that one search examines`,
  empty: {
    icon: 'audit',
    title: 'No entries yet',
    text: 'Every sign-in, every change, and every read of and search in raw payloads leaves an entry.',
  },
  noMatch: () => '“Actor” is part of a name in any case.',
})

const valueCharsMax = 200

function Detail({ detail }: Pick<AuditRecord, 'detail'>) {
  const entries = Object.entries(detail).filter(
    ([, value]) => value !== null && !(Array.isArray(value) && value.length === 0),
  )
  if (entries.length === 0) return <span class="muted">–</span>
  return (
    <span class="wraps details">
      {entries.map(([name, value]) => (
        <span>
          <span class="muted">{name}</span> <code>{valueText(value)}</code>
        </span>
      ))}
    </span>
  )
}

function valueText(value: unknown): string {
  const isList = Array.isArray(value) && value.every((each) => typeof each === 'string')
  const plain = isList ? value.join(', ') : value
  const text = typeof plain === 'string' ? plain : (JSON.stringify(plain) ?? '')
  return text.length > valueCharsMax ? `${text.slice(0, valueCharsMax)}…` : text
}
