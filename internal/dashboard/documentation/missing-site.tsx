import { Empty, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { Mark } from '../layout.tsx'
import type { Problem } from '../problem.tsx'

const notFound = { title: 'Documentation', status: 404, outcome: 'not_found' } as const

const text = (
  <>
    <p>This program was built without the documentation site.</p>
    <p>
      In a clone, run <code>npm run docs</code>, which takes about a minute. Released programs and images
      contain the site.
    </p>
    <p>
      The same pages are in the folder <code>docs</code> of the repository.
    </p>
  </>
)

/** Page for signed-in users that replaces a documentation site that was not built. */
export const missingSite: Problem = {
  ...notFound,
  body: (
    <>
      <PageHeader title="Documentation" />
      <Empty icon="info" title="The documentation is not part of this program">
        {text}
        <div class="buttons">
          <LinkButton href="/">Overview</LinkButton>
        </div>
      </Empty>
    </>
  ),
}

/** Same page as `missingSite`, for callers without a session. */
export const missingSiteAlone: Problem = {
  ...notFound,
  body: (
    <main class="sign-in" id="main">
      <div class="sign-in-box">
        <div class="sign-in-head">
          <Mark />
          <h1>Documentation</h1>
        </div>
        <div class="sign-in-help">
          {text}
          <LinkButton href="/">To the dashboard</LinkButton>
        </div>
      </div>
    </main>
  ),
}
