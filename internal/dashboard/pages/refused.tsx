import {
  type Advice,
  providerFormField,
  type RefusedCall,
  unknownCause,
  valueOf,
} from '#internal/backoffice/index.ts'
import { type RefusedCause, refusedCauses } from '#internal/intake/index.ts'
import { refusalCauses } from '#internal/providers/index.ts'
import { Facts } from '../components/block.tsx'
import { JsonBlock } from '../components/json.tsx'
import { listRow } from '../components/list.tsx'
import { Badge, Time } from '../components/text.tsx'
import { link, nameOf } from '../page.ts'
import advice from './refused-causes.json'

/** Explanations of refused provider calls, by cause. */
export const refusedCauseAdvice: Readonly<Record<RefusedCause, Advice>> = advice

/** Explains the cause of a refused call. An unknown cause is shown as its own name. */
export function refusedAdviceOf(cause: string): Advice {
  return valueOf(refusedCauseAdvice, cause) ?? unknownCause(cause, 'The call was refused.')
}

/** Smaller than in other lists, because each row contains headers and a sample of the body. */
const pageSize = 25

const causeChoices = [...refusalCauses, ...refusedCauses]
  .map((value) => ({ value, label: refusedAdviceOf(value).title }))
  .toSorted((one, other) => one.label.localeCompare(other.label, 'en'))

export const refusedRow = listRow({
  path: '/refused',
  section: 'refused',
  title: 'Refused calls',
  noun: 'calls',
  pageSize,
  lead: ({ tenant }) =>
    tenant === undefined
      ? 'Provider calls that were refused, and why.'
      : `Provider calls to ${nameOf(tenant)} that were refused, and why.`,
  fields: [
    providerFormField,
    { kind: 'choice', name: 'cause', label: 'Cause', none: 'Any', choices: causeChoices },
    { kind: 'time', name: 'from', label: 'Refused from', place: 'times' },
    { kind: 'time', name: 'to', label: 'Refused before', place: 'times' },
  ],
  actions: ({ tenant }) => (
    <a class="button" href={link('/refused/verify', { tenant: tenant?.id })}>
      Verify a call
    </a>
  ),
  load: ({ backoffice, actor, selection }, { from, to, ...asked }) =>
    backoffice.refused.list(actor, { ...selection, limit: pageSize, ...asked, fromMs: from, toMs: to }),
  rows: (items, { tenant, tenantLabel }) => (
    <ul class="refused-list" aria-label="Refused calls, newest first">
      {items.map((call) => (
        <Call call={call} tenantName={tenant === undefined ? tenantLabel(call.tenantId) : undefined} />
      ))}
    </ul>
  ),
  examined: () => 'the calls that one search examines',
  empty: {
    icon: 'check',
    title: 'No call was refused',
    text: 'All provider calls were accepted. Calls that name no tenant are only counted.',
  },
})

function Call(props: { readonly call: RefusedCall; readonly tenantName: string | undefined }) {
  const { call, tenantName } = props
  const { id, provider, cause, refusedAtMs, sourceAddress, headers, sample } = call
  const { title, means, todo } = refusedAdviceOf(cause)
  return (
    <li>
      <details id={id} class="refused-call">
        <summary>
          <span class="refused-cause">
            <Badge tone="bad">{title}</Badge>
          </span>
          {tenantName !== undefined && <span class="refused-tenant">{tenantName}</span>}
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
              [
                'Tenant',
                tenantName === undefined ? undefined : (
                  <a href={link('/refused', { tenant: call.tenantId })}>{tenantName}</a>
                ),
              ],
              ['Cause', <code>{cause}</code>],
              ['From', sourceAddress === null ? undefined : <code>{sourceAddress}</code>],
              ['At', <Time atMs={refusedAtMs} format="full" />],
            ]}
          />
          <h3>Headers, redacted</h3>
          <JsonBlock text={JSON.stringify(headers)} label={`headers of ${id}`} />
          {sample !== null && (
            <>
              <h3>Start of the body, redacted</h3>
              <JsonBlock text={sample} label={`body of ${id}`} />
            </>
          )}
        </div>
      </details>
    </li>
  )
}
