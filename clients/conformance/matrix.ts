import { deduplicationsOf, frameworkNames, middlewareAreas, receiverAreas } from './app-cases.ts'
import { type Area, isRun, type Language, recordAreas } from './cases.ts'
import { serviceNames } from './services.ts'

/** Path of the page with the generated matrix. */
export const matrixPath = 'clients/conformance/README.md'

/** Libraries that run the cases of the record API, as columns. */
const columns: readonly { readonly title: string; readonly language: Language }[] = [
  { title: 'TypeScript', language: 'typescript' },
  { title: 'Python, functions', language: 'python' },
  { title: 'Python, coroutines', language: 'python' },
]

/** Returns a page with its matrix brought up to date. */
export function withMatrix(page: string): string {
  return page.replace(/(?<=<!-- matrix:begin -->\n+)[\s\S]*?(?=\n+<!-- matrix:end -->)/, () => matrix())
}

const serviceLetters = { redis: 'R', postgres: 'P', memory: 'K' } as const
const deduplicationLetters = { records: 'L', transaction: 'T', none: 'N' } as const

/** Returns a table for each area, with a case a row. */
function matrix(): string {
  const ofRecords = recordAreas.map((area) =>
    table(
      area,
      columns.map(({ title }) => title),
      (one) =>
        columns.map(({ language }) =>
          isRun(one, language) ? serviceNames.map((service) => serviceLetters[service]) : [],
        ),
    ),
  )
  const all = [...frameworkNames.bun, ...frameworkNames.node, ...frameworkNames.python]
  const ofMiddleware = middlewareAreas.map((area) =>
    table(area, all, (one) => all.map((framework) => (isRun(one, framework) ? ['R'] : []))),
  )
  const ofReceivers = receiverAreas.map((area) =>
    table(area, all, (one) =>
      all.map((framework) =>
        isRun(one, framework) ? deduplicationsOf(one).map((by) => deduplicationLetters[by]) : [],
      ),
    ),
  )
  return [...ofRecords, ...ofMiddleware, ...ofReceivers].join('\n\n')
}

function table<Case extends { readonly name: string }>(
  { title, cases }: Area<Case>,
  columnTitles: readonly string[],
  cellsOf: (one: Case) => readonly (readonly string[])[],
): string {
  const rows = cases.map((one) => {
    const cells = cellsOf(one).map((letters) => letters.join(' ') || '–')
    return `| ${one.name} | ${cells.join(' | ')} |`
  })
  const head = ['case', ...columnTitles]
  return [`### ${title}\n`, `| ${head.join(' | ')} |`, `|${head.map(() => ' --- |').join('')}`, ...rows].join(
    '\n',
  )
}
