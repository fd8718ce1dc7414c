// Draws the diagrams of the documentation: a picture for light and one for dark pages for each ```mermaid block. The pictures are committed,
// so that building the site needs neither Mermaid nor a browser.
//   npm run docs:diagrams
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { diagramPath, diagramSources, diagramThemes } from '#cmd/dev/docs/diagram-files.ts'
import { docsFolder, repositoryRoot } from '#cmd/dev/docs/pages.ts'
import { openBrowser } from '#test/support/dashboard/browser.ts'

const version = '11.17.2'
const integrity =
  'sha512-V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=='
const folder = join(docsFolder, 'public/diagrams')

/** Returns Mermaid's program for browsers. The package without its 180 MB of dependencies contains it whole. */
function mermaidScript(): string {
  const kept = join(repositoryRoot, '.latchkey/docs')
  const script = join(kept, `mermaid-${version}.js`)
  if (existsSync(script)) return readFileSync(script, 'utf8')
  mkdirSync(kept, { recursive: true })
  const run = (command: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: kept })
    if (exitCode !== 0) throw new Error(`${command.join(' ')}: ${stderr.toString()}`)
    return stdout
  }
  const archive = join(
    kept,
    run(['npm', 'pack', '--silent', `mermaid@${version}`])
      .toString()
      .trim(),
  )
  const hash = createHash('sha512').update(readFileSync(archive)).digest('base64')
  if (`sha512-${hash}` !== integrity) throw new Error(`mermaid ${version} has another hash: sha512-${hash}`)
  writeFileSync(script, run(['tar', '-xzOf', archive, 'package/dist/mermaid.min.js']))
  rmSync(archive)
  return readFileSync(script, 'utf8')
}

/** Gives the picture its size, since an image of 100 % width has none. */
function sized(svg: string): string {
  const [, width = '0', height = '0'] = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg) ?? []
  const size = `width="${Math.ceil(Number(width))}" height="${Math.ceil(Number(height))}"`
  return `${svg.replace(/ style="max-width:[^"]*"/, '').replace(/ width="100%"/, ` ${size}`)}\n`
}

const sources = diagramSources()
const wanted = new Set(sources.flatMap((source) => diagramThemes.map((theme) => diagramPath(source, theme))))
mkdirSync(folder, { recursive: true })
for (const name of readdirSync(folder)) if (!wanted.has(`public/diagrams/${name}`)) rmSync(join(folder, name))
const browser = await openBrowser()
try {
  const { page } = await browser.visitor('about:blank')
  await page.addScriptTag({ content: mermaidScript() })
  for (const source of sources)
    for (const theme of diagramThemes) {
      const path = diagramPath(source, theme)
      if (existsSync(join(docsFolder, path))) continue
      const settings = {
        startOnLoad: false,
        securityLevel: 'strict',
        deterministicIds: true,
        htmlLabels: false,
        flowchart: { htmlLabels: false },
        theme: theme === 'dark' ? 'dark' : 'neutral',
        fontFamily: 'system-ui, sans-serif',
      }
      const svg = await page.evaluate<string>(
        `(mermaid.initialize(${JSON.stringify(settings)}), mermaid.render('diagram', ${JSON.stringify(source)}).then((drawn) => drawn.svg))`,
      )
      writeFileSync(join(docsFolder, path), sized(svg))
      console.log(path)
    }
} finally {
  await browser.close()
}
