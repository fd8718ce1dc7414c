import { familyPrefixOf, parseTypeFilter } from '#internal/base/index.ts'
import { noticeSamples } from '#internal/events/index.ts'
import { eventCatalogue, findProviderName } from '#internal/providers/index.ts'

const suggestionsMax = 3
/** Minimum number of leading letters that a mistyped word shares with a suggestion. */
const sharedCharsMin = 4

/** Types of the catalogue and of notifications. Declared providers and senders of `generic` can have other types. */
const knownTypes: readonly string[] = [
  ...eventCatalogue.map(({ type }) => type),
  ...Object.keys(noticeSamples),
]
const families = [...new Set(knownTypes.map((type) => type.split('.', 1).join()))]

/** Explains that a type is not in the catalogue. Undefined if it is, or if the type begins with a provider's name. Reads memory only. */
export function typeProblemOf(text: string):
  | {
      readonly problem: string
      readonly suggestions: readonly string[]
    }
  | undefined {
  const filter = parseTypeFilter(text)
  if (filter === undefined) return undefined
  const prefix = familyPrefixOf(filter)
  const isKnown = knownTypes.some((type) =>
    prefix === undefined ? type === filter : type.startsWith(prefix),
  )
  const isOfProvider = findProviderName(filter.split('.', 1).join(), new Map()) !== undefined
  if (isKnown || isOfProvider) return undefined
  const problem =
    prefix === undefined
      ? `No event type of the catalogue is named “${filter}”.`
      : `No event type of the catalogue begins with “${prefix}”.`
  return { problem, suggestions: suggestionsFor((prefix ?? filter).replace(/\.$/, '')) }
}

/** Returns the family that a word names: `payment.*` for `payment`. Empty if no type begins with the word. */
export function familiesOf(text: string): readonly string[] {
  return knownTypes.some((type) => type.startsWith(`${text}.`)) ? [`${text}.*`] : []
}

/** Returns the types that contain `text`, in lower case; those that begin with it come first. */
export function typesLike(text: string): readonly string[] {
  const rankOf = (type: string) => Number(!type.startsWith(text))
  return knownTypes.filter((type) => type.includes(text)).toSorted((a, b) => rankOf(a) - rankOf(b))
}

function suggestionsFor(text: string): readonly string[] {
  const named = familiesOf(text)
  if (named.length > 0) return named
  const containing = text.length < sharedCharsMin ? [] : typesLike(text)
  if (containing.length > 0) return containing.slice(0, suggestionsMax)
  const word = text.split('.', 1).join()
  return families
    .filter((family) => family.slice(0, sharedCharsMin) === word.slice(0, sharedCharsMin))
    .slice(0, suggestionsMax)
    .map((family) => `${family}.*`)
}

/** Renders a problem with suggestions for a type that is not in the catalogue, otherwise nothing. */
export function TypeHint(props: {
  readonly type: string | undefined
  /** Returns the address of the page with a suggested type. Omit to show suggestions as text without links. */
  hrefOf?(type: string): string
}) {
  const { type, hrefOf } = props
  const found = type === undefined ? undefined : typeProblemOf(type)
  if (found === undefined) return null
  const { problem, suggestions } = found
  return (
    <>
      {problem}
      {suggestions.length > 0 && ' Did you mean '}
      {suggestions.map((each, nth) => (
        <>
          {nth > 0 && ' or '}
          {hrefOf ? <a href={hrefOf(each)}>{each}</a> : <code>{each}</code>}
        </>
      ))}
      {suggestions.length > 0 && '?'}{' '}
    </>
  )
}
