import type { JsonSchema } from '#internal/http/index.ts'

/** A header of a provider's calls. A call needs only one of its names; if it contains several of them, their values must be equal. */
export interface ProviderHeader {
  /** Names of the header: the neutral name first, then the vendor's names. */
  readonly names: readonly string[]
  /** Description in the public API contract. */
  readonly description: string
  /** Schema in the public API contract. Adapters also check the value and refuse malformed values with a cause. */
  readonly schema: JsonSchema
}

/** Declares a header that an adapter reads. The public API contract lists it. */
export function header(
  names: readonly string[],
  description: string,
  schema: JsonSchema = { type: 'string', minLength: 1, maxLength: 255 },
): ProviderHeader {
  return { names, description, schema }
}

/** Schema of an event id in a header. */
export const eventIdSchema: JsonSchema = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  pattern: '^[^\\x00-\\x20,\\x7f\\xa0]+$',
}

/** Returns the names of headers in lower case. */
export function lowerNames(...headers: readonly Pick<ProviderHeader, 'names'>[]): string[] {
  return headers.flatMap(({ names }) => names.map((name) => name.toLowerCase()))
}
