"""`crossgrad federation status`: which sites are reachable, and at which step they are."""

from crossgrad._cli.agent import FederationFile, IdentityFolder, Insecure, Site, site_identity
from crossgrad._cli.app import examples
from crossgrad._cli.federation import federation_app


@federation_app.command(
    epilog=examples(
        "crossgrad federation status federation.toml --site hospital-a",
        "crossgrad federation status federation.toml --site hospital-a --identity /etc/crossgrad",
    )
)
def status(federation: FederationFile, site: Site, identity: IdentityFolder = None, insecure: Insecure = False) -> None:
    """Ask every site that can be reached for its status, in the name of the site `--site`."""
    from crossgrad.federation.insecure import check_loopback
    from crossgrad.federation.queries import Inquirer, UnreachableError
    from crossgrad.federation.reading import read_federation

    known = read_federation(federation)
    own = site_identity(known, site, identity, insecure)
    if insecure:  # it asks sites that are no neighbours, too
        check_loopback(known, range(len(known.sites)))
    for entry in known.sites:
        try:
            answer = Inquirer(known, own, entry.name).status()
        except UnreachableError as error:
            print(f"{entry.name}: {error}")
            continue
        links = ", ".join(f"{name} {state}" for name, state in sorted(answer.about.get("links", {}).items()))
        version = answer.about.get("version")
        other = "" if version == known.version else f"; has version {version} of the file, not {known.version}"
        unencrypted = "" if own.encrypted else "; NOT ENCRYPTED"
        step, milliseconds = answer.about.get("step"), round(1000 * answer.seconds)
        print(f"{entry.name}: step {step}, {milliseconds} ms; {links}{other}{unencrypted}")
