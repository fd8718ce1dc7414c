import { Type as t } from '@sinclair/typebox'

/** One word of a closed set, in a body. */
export function oneOf<const Words extends readonly string[]>(words: Words, description: string) {
  const pattern = `^(${words.join('|')})$`
  return t.Unsafe<Words[number]>(t.String({ enum: [...words], pattern, description }))
}

/** A moment in a body, as RFC 3339 writes it; `readTime` reads it, and tells of days that there are not. */
export function moment(description: string) {
  return t.String({
    pattern:
      '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$',
    maxLength: 40,
    description: `${description} Such as 2026-11-01T08:30:00Z.`,
  })
}
