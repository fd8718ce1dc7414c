import { isRun, type Language, recordAreas, serviceNames } from './cases.ts'

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

/** Returns a table for each area: a case a row, with the services on which a test runs it. */
function matrix(): string {
  const letters = { redis: 'R', postgres: 'P', memory: 'K' } as const
  const tables = recordAreas.map(({ title, cases }) => {
    const rows = cases.map((one) => {
      const cells = columns.map(({ language }) => {
        const run = serviceNames.filter((service) => isRun(one, language, service))
        return run.length === 0 ? '–' : run.map((service) => letters[service]).join(' ')
      })
      return `| ${one.name} | ${cells.join(' | ')} |`
    })
    const head = ['case', ...columns.map((column) => column.title)]
    return [
      `### ${title}\n`,
      `| ${head.join(' | ')} |`,
      `|${head.map(() => ' --- |').join('')}`,
      ...rows,
    ].join('\n')
  })
  return tables.join('\n\n')
}
