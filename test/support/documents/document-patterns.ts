import fc from 'fast-check'

/** Returns all values of a keyword in a document, in order. */
export function keywordsOf(value: unknown, keyword: string): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap((each) => keywordsOf(each, keyword))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => [
    ...(name === keyword && typeof inner === 'string' ? [inner] : []),
    ...(name === 'example' || name === 'examples' ? [] : keywordsOf(inner, keyword)),
  ])
}

/** Returns the patterns of a document, each once. */
export function patternsOf(document: object): readonly string[] {
  return [...new Set(keywordsOf(document, 'pattern').map(String))]
}

/** Characters that the classes and anchors of some engine treat differently from those of another. */
const odd = [
  ...Array.from('\0\t\n\v\f\r\u001f !,/:=[\\]^`{|}~\u007f\u0080\u0085\u009f\u00a0\u2028\u3000\ufeff\ufffd'),
  // Long s and the Kelvin sign, which some engines fold to ASCII letters, and digits and letters of other scripts.
  ...Array.from('\u017f\u212a\u0663\uff19é😀09AZaz_.-$'),
  'ключ',
  '日本',
  '\n\n',
]

/**
 * Returns texts that tell regular expression engines apart: odd characters alone, and texts that match, whole and with an odd character
 * somewhere. The same texts for the same pattern.
 */
export function textsFor(pattern: string): readonly string[] {
  const matching = fc.sample(fc.stringMatching(new RegExp(pattern)), { numRuns: 20, seed: 1 })
  const changed = matching.flatMap((text, index) =>
    odd.map((character, place) => {
      const at = (index + place) % (text.length + 1)
      return text.slice(0, at) + character + text.slice(at)
    }),
  )
  const ended = matching.map((text) => `${text}\n`)
  return ['', ...odd, ...matching, ...changed, ...ended].filter((text) => text.isWellFormed())
}

/** Returns those texts for a pattern on which an engine and ECMA-262 without flags disagree. */
export function differingTexts(pattern: string, matches: (text: string) => boolean): readonly string[] {
  const plain = new RegExp(pattern)
  return textsFor(pattern).filter((text) => plain.test(text) !== matches(text))
}
