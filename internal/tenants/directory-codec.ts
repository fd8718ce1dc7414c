import type { ApiKeyScope, RecordDurability, TenantSpec } from './model.ts'
import { walletStageText } from './provider-acceptance.ts'
import type { Limits } from './spec-limits.ts'

/** Stores that contain a tenant's records and locks. */
export interface RecordStoreOfTenant {
  readonly current: RecordDurability
  /** Earlier store, while it can still contain records or locks of the tenant; otherwise null. */
  readonly before: RecordDurability | null
  readonly generation: number
  /** Highest fence of those earlier stores in which all of the tenant's records and locks have ended. */
  readonly fence: number
}

/** Receiver of a tenant's notifications. `url` is absent if a Secret contains it. */
export type DirectoryNotifications = Omit<
  NonNullable<TenantSpec['notifications']>,
  'signingSecretRef' | 'urlSecretRef'
>

/** An enabled provider with its settings. */
export type DirectoryProvider = Omit<TenantSpec['providers'][number], 'enabled' | 'secretRef'>

/** API key data that requests use. */
export interface DirectoryKey {
  readonly name: string
  readonly scopes: ReadonlySet<ApiKeyScope>
  /** The key's expiry or the end of its rotation, whichever is earlier. */
  readonly expiresAtMs: number | null
}

/** Describes a text of a directory row: the SQL that writes it, the function that selects its used part, and the parser of that part. */
const text = <T>(sql: string, parse: (used: string) => T, usedOf = (written: string) => written) => ({
  sql,
  parse,
  usedOf,
})

// SQL text instead of the query builder, because each process reads all tenants: extracting parts of a spec costs Postgres less than
// building an object of them, and one column costs the process less than eight.
const rules = {
  records: text("t.spec -> 'records'", (json) => parseFrozen(json) as TenantSpec['records']),
  recordStore: text(
    'json_build_array(t.record_store, t.record_store_before, t.record_store_generation, t.record_fence)',
    parseRecordStore,
  ),
  limits: text("t.spec -> 'limits'", (json) => parseFrozen(json) as Limits),
  callback: text(
    "(t.spec -> 'callback') - '{url,signingSecretRef}'::text[]",
    (json) => parseFrozen(json) as Omit<NonNullable<TenantSpec['callback']>, 'url' | 'signingSecretRef'>,
  ),
  providers: text(
    "t.spec -> 'providers'",
    (json) => parseFrozen(json) as readonly DirectoryProvider[],
    enabledProviders,
  ),
  walletStage: text(walletStageText, (stage) => stage as TenantSpec['walletRollout']['stage']),
  retention: text("t.spec -> 'retention'", (json) => parseFrozen(json) as TenantSpec['retention']),
  redactedFields: text(
    "coalesce(t.spec #> '{redaction,fields}', '[]')",
    (json) => parseFrozen(json) as readonly string[],
  ),
}

export type DirectoryRules = {
  readonly [Name in keyof typeof rules]: ReturnType<(typeof rules)[Name]['parse']>
}

const ruleNames = Object.keys(rules) as (keyof DirectoryRules)[]

/** Columns of the tables `tenants t` and `api_keys k`. */
export const encodedSql = {
  /** One rule per line; the line of an absent rule is empty. A `jsonb` value as text contains no line feed. */
  rules: `concat(${ruleNames.map((name) => rules[name].sql).join(", E'\\n', ")})`,
  notifications: "(t.spec -> 'notifications') - '{signingSecretRef,urlSecretRef}'::text[]",
  /** Name, scopes, and the expiry or the end of the rotation in ms, whichever is earlier, or null. */
  key: 'json_build_array(k.name, k.scopes, floor(extract(epoch FROM least(k.expires_at, k.ends_at)) * 1000)::bigint)',
}

/**
 * Parses the columns of `encodedSql`. Tenants with equal texts share one parsed value, which saves memory and time, because most tenants
 * have one of a few sets of rules. Each column remembers its first 1 000 values; further values are not shared.
 */
export class DirectoryDecoder {
  readonly name = sharing((name) => name)
  readonly notifications = sharing((json) => parseFrozen(json) as DirectoryNotifications)
  readonly #scopes = sharing((json): ReadonlySet<ApiKeyScope> => new Set(JSON.parse(json) as ApiKeyScope[]))
  readonly #parts = ruleNames.map((name) => sharing<unknown>(rules[name].parse))

  /** All rules of a tenant. Tenants whose rules differ in one part, such as the names of providers' Secrets, share the other parts. */
  readonly rules = sharing((lines) => {
    const texts = lines.split('\n')
    const parts = ruleNames.map((name, index) => {
      const used = rules[name].usedOf(texts[index] ?? '')
      return [name, this.#parts[index]?.(used)]
    })
    return Object.fromEntries(parts) as DirectoryRules
  })

  readonly key = sharing((json): DirectoryKey => {
    const [name, scopes, expiresAtMs] = JSON.parse(json) as [string, ApiKeyScope[], number | null]
    return Object.freeze({ name, scopes: this.#scopes(JSON.stringify(scopes.sort())), expiresAtMs })
  })
}

const sharedMax = 1_000

function sharing<T>(parse: (text: string) => T): (text: string) => T {
  const byText = new Map<string, T>()
  return (given) => {
    const known = byText.get(given)
    if (known !== undefined) return known
    const made = parse(given)
    if (byText.size < sharedMax) byText.set(given, made)
    return made
  }
}

/** Parses one part of the rules. Returns null for a missing part, which does not occur: every supported version stores all parts. */
function parseFrozen(json: string): object {
  return Object.freeze(JSON.parse(json || 'null') as object)
}

function parseRecordStore(json: string): RecordStoreOfTenant {
  const [current, before, generation, fence] = JSON.parse(json) as [
    RecordStoreOfTenant['current'],
    RecordStoreOfTenant['before'],
    number,
    number,
  ]
  return Object.freeze({ current, before, generation, fence })
}

/** Keeps enabled providers, without the fields that requests do not use. */
function enabledProviders(json: string): string {
  const all = JSON.parse(json) as TenantSpec['providers']
  return JSON.stringify(
    all.filter(({ enabled }) => enabled).map(({ enabled: _enabled, secretRef: _secretRef, ...rest }) => rest),
  )
}
