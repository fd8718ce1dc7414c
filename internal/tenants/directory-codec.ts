import type { ApiKeyScope, RecordDurability, TenantSpec } from './model.ts'
import { walletStageText } from './provider-acceptance.ts'
import type { Limits } from './spec-limits.ts'

/** Where a tenant's records and locks are. */
export interface RecordStoreOfTenant {
  readonly current: RecordDurability
  /** Store that had them before and can still have some of them; null if it has none. */
  readonly before: RecordDurability | null
  readonly generation: number
  /** The last fence that an earlier store gave before its last record or lock ended. */
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

/** A text of a directory row: the SQL that writes it, what of it is used, and the function that parses that. */
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
  /** One text per line, an absent one empty. The texts of `jsonb` contain no line feed. */
  rules: `concat(${ruleNames.map((name) => rules[name].sql).join(", E'\\n', ")})`,
  notifications: "(t.spec -> 'notifications') - '{signingSecretRef,urlSecretRef}'::text[]",
  /** Name, scopes, and the expiry or the end of the rotation in ms, whichever is earlier, or null. */
  key: 'json_build_array(k.name, k.scopes, floor(extract(epoch FROM least(k.expires_at, k.ends_at)) * 1000)::bigint)',
}

/**
 * Parses the columns of `encodedSql`. Equal texts have one value, which saves memory and parsing, because most tenants have one of a few
 * sets of rules. A column remembers its first 1 000 values; further ones belong to one tenant each.
 */
export class DirectoryDecoder {
  readonly name = sharing((name) => name)
  readonly notifications = sharing((json) => parseFrozen(json) as DirectoryNotifications)
  readonly #scopes = sharing((json): ReadonlySet<ApiKeyScope> => new Set(JSON.parse(json) as ApiKeyScope[]))
  readonly #parts = ruleNames.map((name) => sharing<unknown>(rules[name].parse))

  /** All rules of a tenant. If they differ in one part, such as the names of providers' Secrets, tenants still share the other parts. */
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

/** An absent part, which no supported version stores, is null. */
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
