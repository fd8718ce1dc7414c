import { type AuditFilter, type AuditRecord, auditExaminedMax, listAudit } from '#internal/access/index.ts'
import { idPattern, type TenantId } from '#internal/base/index.ts'
import {
  isWholeSample,
  listRefusedCalls,
  type RefusedCallView,
  type RefusedCause,
} from '#internal/intake/index.ts'
import { type LockHistoryEntry, type LockState, listLockHistory } from '#internal/records/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { RefusedCall } from './http-answers.ts'
import { defined, invalid } from './outcome.ts'
import { listPage, type Page, type PageRequest, pageFrom, parseIntegerPosition, readPage } from './page.ts'
import { redactHeaders, type SharedDeskParts, type SharedUseCase, type UseCase } from './parts.ts'
import { reachTenant, type TenantSelection } from './reach.ts'

/** Filters of a tenant's lock history. Times are in milliseconds since the epoch. */
export interface LockListRequest extends PageRequest {
  readonly tenantId: TenantId
  readonly scope?: string | undefined
  /** Key of the lock. Allowed only together with a scope. */
  readonly key?: string | undefined
  readonly state?: LockState | undefined
  /** Inclusive start of the time of acquisition. */
  readonly fromMs?: number | undefined
  /** Exclusive end of the time of acquisition. */
  readonly toMs?: number | undefined
}

/** Lists a tenant's lock history, most recently acquired first. */
const listLocks: UseCase<LockListRequest, Page<LockHistoryEntry>> = async (parts, actor, request) => {
  const { tenantId, scope, key, state, fromMs, toMs } = request
  const page = readPage(request, parseIntegerPosition)
  if (page.kind !== 'ok') return page
  if (key !== undefined && scope === undefined)
    return invalid('A search by key requires the scope of the key')
  const reached = await reachTenant(parts, actor, tenantId)
  if (reached.kind !== 'ok') return reached
  const address = scope === undefined ? {} : { scope, key }
  const filter = { tenantId, state, fromMs, toMs, ...page.value, ...address }
  const { entries, next } = await listLockHistory(parts.readPool, filter, parts.clock.now())
  return pageFrom(entries, next)
}

export const lockCases = { list: listLocks }

const refusedIdForm = new RegExp(idPattern('ref'))

/** Newest first. */
const listRefused: SharedUseCase<
  PageRequest &
    TenantSelection & {
      readonly provider?: ProviderName | undefined
      readonly cause?: RefusedCause | undefined
      readonly fromMs?: number | undefined
      readonly toMs?: number | undefined
    },
  Page<RefusedCall>
> = async (parts, actor, request) => {
  const { provider, cause, fromMs, toMs } = request
  return await listPage<RefusedCall, string>(parts, actor, request, {
    parse: (text) => (refusedIdForm.test(text) ? text : undefined),
    positionOf: ({ id }) => id,
    async read({ limit, after, ...owner }) {
      const filter = { limit, ...owner, ...defined({ after, cause, provider, fromMs, toMs }) }
      const { calls, next } = await listRefusedCalls(parts.readPool, filter, parts.clock.now())
      return { items: calls.map((call) => redactCall(parts, call)), next }
    },
  })
}

function redactCall({ directory, redactorOf }: SharedDeskParts, call: RefusedCallView): RefusedCall {
  const tenant = directory.findTenantById(call.tenantId)
  // Omits headers and sample: the redaction rules of a deleted tenant are unknown.
  if (tenant === undefined) return { ...call, headers: {}, sample: null }
  const redactor = redactorOf(tenant)
  const { headers, sample } = call
  // Drops the end of a truncated sample: a secret that was cut in two there would not be recognized.
  const redact = (text: string) =>
    redactor.payload(text, isWholeSample(text) ? text.length : text.length - 1).text
  return {
    ...call,
    headers: redactHeaders(redactor, headers),
    sample: sample === null ? null : redact(sample),
  }
}

export const refusedCases = { list: listRefused }

const searchCharsMax = 200

/** Lists audit entries, newest first. Entries without a tenant are shown only to actors that see all tenants. */
const listEntries: UseCase<
  PageRequest & TenantSelection & Pick<AuditFilter, 'actor' | 'action' | 'fromMs' | 'toMs'>,
  Page<AuditRecord>
> = async (parts, actor, request) => {
  const { actor: by, action, fromMs, toMs } = request
  if (by !== undefined && by.length > searchCharsMax)
    return invalid(`A search has at most ${searchCharsMax} characters`)
  return await listPage<AuditRecord, number>(parts, actor, request, {
    parse: parseIntegerPosition,
    positionOf: ({ id }) => id,
    async read({ after, ...page }, tenants) {
      // Divides the maximum number of examined entries among the tenants, because the maximum applies to the whole page.
      const examinedMax = Math.ceil(auditExaminedMax / tenants)
      const filter = { ...page, beforeId: after, actor: by, action, fromMs, toMs, examinedMax }
      const { entries, next } = await listAudit(parts.readPool, filter)
      return { items: entries, next }
    },
  })
}

export const auditCases = { list: listEntries }
