// Bun parses data files when it compiles the program. catalogue.test.ts holds the files to these types.

declare module '*.yaml' {
  const data: unknown
  export default data
}

declare module '#config/providers/built-in/*/types.yaml' {
  import type { TypeRow } from '#internal/providers/catalogue.ts'

  const rows: readonly TypeRow[]
  export default rows
}

declare module '#config/providers/built-in/*/samples.yaml' {
  import type { Sample } from '#internal/providers/catalogue.ts'

  const samples: readonly Sample[]
  export default samples
}

declare module '#config/providers/built-in/vocabulary.yaml' {
  /** Meaning of each normalized type in one sentence, by area, noun and verb. */
  const areas: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>
  export default areas
}
