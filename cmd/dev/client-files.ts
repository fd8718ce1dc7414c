// Writes the files of the client libraries that are generated from the catalogue of event types and not committed. Run by the set-up when
// the catalogue changed, and by the packaging of a library.
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { eventCatalogue } from '#internal/providers/index.ts'

const header = '// Built from the catalogue of event types.\n'

function eventSourcesText(): string {
  const types = eventCatalogue.map(({ type, description, providers }) => {
    const members = providers.map(({ provider, sources }) => {
      const rawTypes = new Set(sources.map(({ providerRawType }) => literal(providerRawType)))
      return `${provider}: ${[...rawTypes].join(' | ')}`
    })
    return `  /** ${description} */\n  ${literal(type)}: { ${members.join('; ')} }\n`
  })
  return `${header}
/** Normalized types of events, with the raw types of each provider that lead to them. */
export interface EventSources {
${types.join('')}}
`
}

/** The payloads of a type are one JSON text, so that compilers and programs that load the module parse only what they use. */
function eventSamplesText(): string {
  const types = eventCatalogue.map(({ type, providers }) => {
    return `  ${literal(type)}:\n    ${literal(JSON.stringify(samplesOf(providers)))},\n`
  })
  return `${header}
/** JSON of the samples of each normalized type: an array of \`{ provider, providerRawType, payload }\`. */
export const eventSamples: Readonly<Record<string, string>> = {
${types.join('')}}
`
}

/** One line for each normalized type: its name, a space, and the JSON of its samples. */
function pythonSamplesText(): string {
  return eventCatalogue
    .map(({ type, providers }) => `${type} ${JSON.stringify(samplesOf(providers))}\n`)
    .join('')
}

function samplesOf(providers: (typeof eventCatalogue)[number]['providers']) {
  return providers.map(({ provider, providerRawType, example }) => ({
    provider,
    providerRawType,
    payload: example,
  }))
}

function literal(text: string): string {
  return `'${text.replaceAll(/['\\]/g, '\\$&')}'`
}

const texts = {
  'typescript/src/event-sources.generated.ts': eventSourcesText(),
  'typescript/src/event-samples.generated.ts': eventSamplesText(),
  'python/src/latchkey/testing/event-samples.txt': pythonSamplesText(),
}
for (const [path, text] of Object.entries(texts))
  writeFileSync(resolve(import.meta.dir, '../../clients', path), text)
