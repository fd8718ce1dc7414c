import vocabulary from '#config/providers/built-in/vocabulary.yaml'

const areas = parseVocabulary(vocabulary)

/** Areas of the vocabulary with their nouns in alphabetical order. */
export const eventAreas = Object.entries(areas).map(([title, nouns]) => ({
  title,
  nouns: Object.keys(nouns).sort(),
}))

/** Meaning of each normalized type in one sentence, by type. */
export const eventTypeTexts: ReadonlyMap<string, string> = new Map(
  Object.values(areas).flatMap((each) =>
    Object.entries(each).flatMap(([noun, meanings]) =>
      Object.entries(meanings).map(([verb, text]): [string, string] => [`${noun}.${verb}`, text]),
    ),
  ),
)

/** Meanings by area, noun and verb. */
function parseVocabulary(value: unknown) {
  return value as Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>
}
