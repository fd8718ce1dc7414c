import { type TProperties, Type } from '@sinclair/typebox'

/** Schema of an object without further members. */
export const closed = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })

/** Schema of one of these texts. */
export function oneOf<const Words extends readonly string[]>(words: Words) {
  return Type.Unsafe<Words[number]>(Type.Union(words.map((word) => Type.Literal(word))))
}

/** Schema of a map from names to values of any kind. */
export const anyFields = Type.Record(Type.String(), Type.Unknown())
