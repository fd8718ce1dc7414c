import type { JsonSchema } from '#internal/http/index.ts'

/** A header of a provider's calls. Any one of its names is enough, and several must be equal. */
export interface ProviderHeader {
  /** Neutral name first, then the vendor's. */
  readonly names: readonly string[]
  /** For the public contract. */
  readonly description: string
  /** For the public contract; adapters refuse malformed values by themselves, with a cause. */
  readonly schema: JsonSchema
}

/** Declares a header that an adapter reads; the public contract lists it. */
export function header(
  names: readonly string[],
  description: string,
  schema: JsonSchema = { type: 'string', minLength: 1, maxLength: 255 },
): ProviderHeader {
  return { names, description, schema }
}

/** Form of an event id in a header. */
export const eventIdSchema: JsonSchema = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  pattern: '^[^\\s,]+$',
}

/** Form of `t=<unix seconds>,v1=<hex>[,v1=…]`, which `verifyTimedHeader` checks. */
export const timedSignatureSchema: JsonSchema = {
  type: 'string',
  maxLength: 4096,
  pattern: '^t=[0-9]{1,12}(,[^=,]+=[^=,]*)+$',
}

/** Describes that form. */
export const timedSignatureText =
  '`t=<unix seconds>,v1=<hex>[,v1=…]`: each `v1` is an HMAC-SHA256 of `<t>.<body>`, and one must match.'

/** Returns the names of headers in lower case. */
export function lowerNames(...headers: readonly Pick<ProviderHeader, 'names'>[]): string[] {
  return headers.flatMap(({ names }) => names.map((name) => name.toLowerCase()))
}
