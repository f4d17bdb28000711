# The program, from a checkout or the source archive.
{ lib, rustPlatform, installShellFiles }:

rustPlatform.buildRustPackage {
  pname = "zmeld";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [ "--package" "zmeld" "--package" "zmeld-guard" ];
  # They need a machine of their own: `cargo xtask test`.
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    mkdir -p $out/lib/systemd/system-generators
    ln -s $out/bin/zmeld $out/lib/systemd/system-generators/zmeld-generator
    $out/bin/zmeld man >zmeld.1
    installManPage zmeld.1
    for shell in bash zsh fish; do
      $out/bin/zmeld completions $shell >zmeld.$shell
      installShellCompletion --$shell zmeld.$shell
    done
  '';
  meta = {
    description = "Makes the memory of a Linux machine go further";
    # Of the program as it is linked (docs/packages.md).
    license = lib.licenses.gpl3Plus;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "zmeld";
  };
}
