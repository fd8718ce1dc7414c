import { type Static, type TObject, type TProperties, type TSchema, Type as t } from '@sinclair/typebox'
import { timestampPattern } from '#internal/base/index.ts'

/**
 * A rule that a schema cannot express, such as one between two fields. Stated once for both readers of manifests: the API server evaluates
 * `rule`, `parseTenant` calls `holds`, and both answer with `message`.
 */
export interface FieldRule<T> {
  /** CEL expression (Common Expression Language) about the value `self`. If absent, the API server does not check the rule. */
  readonly rule?: string
  readonly message: string
  /** Field of the value that the message is about, such as `.url`. */
  readonly fieldPath?: string
  readonly reason?: 'FieldValueRequired' | 'FieldValueForbidden'
  /** Returns whether a valid value obeys the rule. Absent if no single manifest can break the rule, or if the schema checks it already. */
  readonly holds?: (value: T) => boolean
}

/** Adds rules to a schema. TypeBox ignores them. */
export function ruled<S extends TSchema>(schema: S, ...rules: readonly FieldRule<Static<S>>[]): S {
  return { ...schema, 'x-kubernetes-validations': rules }
}

export const celList = (names: readonly string[]) => `[${names.map((name) => `'${name}'`).join(', ')}]`

/** Declares an object schema that refuses unknown fields, so that a misspelt field is not ignored. */
export function strict<P extends TProperties>(
  properties: P,
  options: { description: string; default?: unknown },
): TObject<P> {
  return t.Object(properties, { additionalProperties: false, ...options })
}

/** Declares a text that is one of `values`. TypeBox checks the pattern; `enum` documents the values in the schema. */
export function oneOf<const V extends readonly string[]>(
  values: V,
  options: { description: string; default?: V[number] },
) {
  return t.Unsafe<V[number]>(t.String({ enum: [...values], pattern: `^(${values.join('|')})$`, ...options }))
}

/** Pattern of an RFC 1123 label, such as the name of a namespace. */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'

export const timestamp = (description: string) =>
  t.String({ pattern: timestampPattern, maxLength: 40, description })

export const secretRef = (description: string) =>
  strict(
    {
      name: t.String({
        pattern: '^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$',
        maxLength: 253,
        description: 'Name of a Secret in the namespace of this tenant.',
      }),
    },
    { description },
  )
