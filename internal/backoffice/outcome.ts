/** Why something was not done. Texts hold nothing secret and tell what to do next. */
export type Refusal =
  /** The tenant may be seen, and this may not be done with it; or it is about all tenants, and only some may be seen. */
  | { readonly kind: 'forbidden' }
  /** There is none, or it belongs to a tenant that may not be seen: nobody is told which. */
  | { readonly kind: 'notFound' }
  /** The request is none. */
  | { readonly kind: 'invalid'; readonly problem: string }
  /** Something else is there by now, or the tenant is not in a state for it. Nothing was changed. */
  | { readonly kind: 'conflict'; readonly problem: string }
  /** Others have to end first. */
  | { readonly kind: 'tooMany'; readonly problem: string }
  /** The API server, the directory or a store does not answer now. A write may have been done: repeat it as it was. */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number }
  /** The key ring does not open the secrets that this takes. Nothing was done. */
  | { readonly kind: 'secretsUnreadable'; readonly retryAfterMs: number }

/** What came of a use case. */
export type Outcome<Value> = { readonly kind: 'ok'; readonly value: Value } | Refusal

/** A page of a list, in an order that stays. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /**
   * Hand it in as `after` for what follows; undefined at the end. A page that is shorter than its limit, even an empty one, may have
   * it: then not everything was searched yet.
   */
  readonly next: string | undefined
}

/** Which page of a list. */
export interface PageRequest {
  /** `next` of the page before; anything else is invalid. */
  readonly after?: string | undefined
  /** 1 to 100, default 50. */
  readonly limit?: number | undefined
}

/** Makes the outcome of what was done. */
export function ok<Value>(value: Value): { readonly kind: 'ok'; readonly value: Value } {
  return { kind: 'ok', value }
}

/** The refusal of whoever may not see it, and of what is not there. */
export const notFound = { kind: 'notFound' } as const
/** The refusal of whoever sees it and may not do it. */
export const forbidden = { kind: 'forbidden' } as const

/** The refusal while the key ring does not open a tenant's secrets. */
export const secretsUnreadable = { kind: 'secretsUnreadable', retryAfterMs: 30_000 } as const

/** The refusal of a request that is none. */
export function invalid(problem: string): Extract<Refusal, { kind: 'invalid' }> {
  return { kind: 'invalid', problem }
}

/** The refusal of a request that meets another state than it expects. */
export function conflict(problem: string): Extract<Refusal, { kind: 'conflict' }> {
  return { kind: 'conflict', problem }
}

/** Where the page begins, undefined for the first one; a refusal for a cursor that `parse` does not know. */
export function cursorOf<Cursor>(
  { after }: PageRequest,
  parse: (text: string) => Cursor | undefined,
): Outcome<Cursor | undefined> {
  const cursor = after === undefined ? undefined : parse(after)
  return after !== undefined && cursor === undefined
    ? invalid('This cursor is none of ours: begin with the first page')
    : ok(cursor)
}

const limitMax = 100
const limitDefault = 50

/** How many items a page is to have; a refusal for what is no such number. */
export function limitOf({ limit = limitDefault }: PageRequest): Outcome<number> {
  const isLimit = Number.isInteger(limit) && limit >= 1 && limit <= limitMax
  return isLimit ? ok(limit) : invalid(`A page has 1 to ${limitMax} items`)
}
